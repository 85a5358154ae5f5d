"""One orchestration: its history as the SDK reads it, and the messages that wait for its next episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from functions_local.durable.contract import EngineOptions, Raised, Returned
from functions_local.durable.decisions import RunActivity, SetTimer, Verdict
from functions_local.durable.event_json import encode
from functions_local.durable.events import (
    Event,
    OrchestratorCompleted,
    OrchestratorStarted,
    TaskScheduled,
    TimerCreated,
)
from functions_local.durable.protocol import ContextWriter, OrchestratorState
from functions_local.durable.shim import replay
from functions_local.times import to_text

_CONTEXTS = ContextWriter(EngineOptions())


@dataclass(eq=False, slots=True)
class Orchestration:
    """An instance. One that is `stuck` gets no episode any more; nobody is told."""

    id: str
    name: str
    input: str
    inbox: list[Event]
    history: list[Event] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    has_ended: bool = False
    is_busy: bool = False
    is_stuck: bool = False

    def context(self, new: Sequence[Event]) -> str:
        """Write what the orchestrator is given."""
        return _CONTEXTS.write(self.id, self.input, self.texts, ",".join(map(encode, new)))

    def judge(self, outcome: Returned | Raised, new: Sequence[Event]) -> Verdict:
        """Match what the orchestrator returned with its history."""
        return replay(OrchestratorState.from_outcome(outcome), [*self.history, *new])

    def record(self, new: Sequence[Event], verdict: Verdict, now: datetime) -> None:
        """Add an episode to the history."""
        text = to_text(now)
        decided = [_decided(task, decision, text) for task, decision in verdict.decisions.items()]
        events = [*new, *decided, OrchestratorCompleted(timestamp=text)]
        self.history += events
        self.texts.append(",".join(map(encode, events)))
        self.has_ended = verdict.outcome is not None


def started(now: datetime) -> Event:
    """Begin an episode."""
    return OrchestratorStarted(timestamp=to_text(now))


def _decided(task: int, decision: RunActivity | SetTimer, now: str) -> Event:
    match decision:
        case RunActivity():
            return TaskScheduled(event_id=task, name=decision.name, timestamp=now)
        case SetTimer():
            return TimerCreated(event_id=task, fire_at=to_text(decision.fire_at), timestamp=now)
        case _:
            assert_never(decision)
