"""The result of a replay: new decisions, and at the end an outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functions_local.durable.events import EventRaised, TaskScheduled, TimerCreated


@dataclass(frozen=True, slots=True)
class RunActivity:
    """Decision: run an activity with this JSON text as input."""

    name: str
    input: str | None

    def agrees_with(self, event: TaskScheduled | TimerCreated) -> bool:
        """Whether history recorded this decision."""
        return isinstance(event, TaskScheduled) and event.name.lower() == self.name.lower()


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Decision: set a timer."""

    fire_at: datetime

    def agrees_with(self, event: TaskScheduled | TimerCreated) -> bool:
        """Whether history recorded this decision. The time may differ: Azure compares the kind only."""
        return isinstance(event, TimerCreated)


type Decision = RunActivity | SetTimer


@dataclass(frozen=True, slots=True)
class Completed:
    """The orchestrator returned this output."""

    output: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The orchestrator raised, requested something unsupported, or contradicts its history."""

    error: str
    #: Whether the orchestrator's own code raised.
    raised: bool = False


@dataclass(frozen=True, slots=True)
class Restarted:
    """The orchestrator continues as new."""

    #: JSON text of the next input.
    input: str
    #: Events without a waiter, in order of arrival; the next generation receives them.
    unread: tuple[EventRaised, ...]


@dataclass(frozen=True, slots=True)
class Terminated:
    """The instance was terminated by a client; its orchestrator was not run."""

    reason: str | None


type Outcome = Completed | Failed | Restarted | Terminated


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a replay."""

    #: None: the orchestrator is waiting.
    outcome: Outcome | None = None
    #: New decisions by task id, in order of id.
    decisions: dict[int, Decision] = field(default_factory=dict)
    suspended: bool = False
