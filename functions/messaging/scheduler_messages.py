"""The application's messages to itself, on `scheduler-requests`. Times are UTC.

Messages to and from child tasks are in the outbox of a task (`functions.core.record.Message`). Each message
may arrive several times, early and late. Duplicate detection compares `id`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from functions.core.record import Message, scheduler_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Start a run of a task."""

    task: str
    epoch: int
    run: int

    @property
    def id(self) -> str:
        """Return the id of the message, which is also the id of the run's Durable instance."""
        return scheduler_id(self.task, self.epoch, self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeRequest:
    """Examine a task because a wait ends at `at`. The message is delivered from `not_before` on.

    `attempt` counts the messages that arrived early.
    """

    task: str
    at: datetime
    not_before: datetime
    attempt: int = 0

    @property
    def id(self) -> str:
        """Return the id of the message."""
        return f"{self.task}.wake.{self.at:%Y%m%dT%H%M%S.%f}.{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """Release steps that wait behind a gate: link `link` of its release chain, delivered from `at` on.

    A link is sent again for another time if it arrived early or was lost, so its id contains the time.
    """

    gate: str
    link: int
    at: datetime

    @property
    def id(self) -> str:
        """Return the id of the message."""
        return f"{self.gate}.release.{self.link}.{self.at:%Y%m%dT%H%M%S.%f}"


type SchedulerMessage = Message | RunRequest | WakeRequest | ReleaseRequest
