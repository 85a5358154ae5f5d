"""Histories written by hand, for replays of the SDK and the Shim without an engine."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import azure.durable_functions as df

from functions_local.durable.contract import Raised, Returned
from functions_local.durable.decisions import Verdict
from functions_local.durable.event_json import encode, to_json
from functions_local.durable.events import (
    Event,
    EventRaised,
    ExecutionStarted,
    OrchestratorCompleted,
    OrchestratorStarted,
    TaskCompleted,
    TaskFailed,
    TaskScheduled,
    TimerCreated,
    TimerFired,
)
from functions_local.durable.protocol import OrchestratorState
from functions_local.durable.shim import replay
from functions_local.times import to_text
from tests.durable.sdk import Orchestrator

_BEGIN = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


class Script:
    """Builds a history, one second from event to event; it starts with the first episode."""

    def __init__(self, orchestrator: Orchestrator, input: Any = None) -> None:  # noqa: A002 - as the context has it
        self._orchestrator = orchestrator
        self._input = input
        self._seconds = 0
        self.events: list[Event] = []
        self._add(OrchestratorStarted(timestamp=self._now()))
        self._add(ExecutionStarted(orchestration_instance={}, name="o", input=None))

    def _now(self) -> str:
        self._seconds += 1
        return to_text(_BEGIN + timedelta(seconds=self._seconds))

    def _add(self, event: Event) -> Self:
        self.events.append(event)
        return self

    def scheduled(self, task: int, name: str) -> Self:
        """Record that an activity was scheduled."""
        return self._add(TaskScheduled(event_id=task, name=name))

    def timer(self, task: int) -> Self:
        """Record that a timer was set."""
        return self._add(TimerCreated(event_id=task, fire_at=self._now()))

    def next(self) -> Self:
        """Start the next episode."""
        self._add(OrchestratorCompleted())
        return self._add(OrchestratorStarted(timestamp=self._now()))

    def completed(self, task: int, result: str | None = None) -> Self:
        """Record that an activity returned."""
        return self._add(TaskCompleted(task_scheduled_id=task, result=result))

    def failed(self, task: int, reason: str = "it failed") -> Self:
        """Record that an activity raised."""
        return self._add(TaskFailed(task_scheduled_id=task, reason=reason, details=None))

    def fired(self, task: int) -> Self:
        """Record that a timer fired."""
        return self._add(TimerFired(timer_id=task, fire_at=self._now()))

    def raised(self, name: str, payload: str) -> Self:
        """Record that an external event arrived."""
        return self._add(EventRaised(name=name, input=payload))

    def run(self) -> str:
        """Replay the SDK; return its state's JSON, or raise as it does."""
        settings = (
            '"instanceId":"i1","isReplaying":false,"parentInstanceId":null,'
            '"upperSchemaVersion":1,"upperSchemaVersionNew":2,'
            '"longRunningTimerIntervalDuration":"3.00:00:00","maximumShortTimerDuration":"6.00:00:00"'
        )
        history = ",".join(map(encode, self.events))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            handle = df.Orchestrator.create(self._orchestrator)
            return str(handle(f'{{"history":[{history}],"input":{to_json(self._input)},{settings}}}'))

    def state(self) -> OrchestratorState:
        """Replay the SDK; return its state."""
        try:
            return OrchestratorState.from_outcome(Returned(self.run()))
        except Exception as error:  # noqa: BLE001 - this is how an orchestrator's state arrives if it raised
            return OrchestratorState.from_outcome(Raised(f"Exception: {error}", ""))

    def verdict(self) -> Verdict:
        """Replay the SDK and then the Shim on its state."""
        return replay(self.state(), self.events)
