"""What the Supervisor uses besides store and index: policy, outbox, queues, heartbeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from functions.pattern.announcements import Announcement
from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.records import Task
from functions.pattern.supervision import SupervisionPolicy

#: Two immediate recoveries, one after a minute; clock skew of at most five seconds.
POLICY = SupervisionPolicy(
    threshold=2,
    extended_waits=(timedelta(minutes=1),),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=30),
)


class MemoryOutbox:
    """Announcements to be sent, all in shard 0."""

    def __init__(self, *waiting: Announcement) -> None:
        self.waiting = list(waiting)

    async def unsent(self, shard: int, before: datetime, most: int) -> Sequence[Announcement]:
        """Read the oldest."""
        waiting = self.waiting if shard == 0 else []
        return sorted((each for each in waiting if each.at < before), key=lambda each: each.at)[:most]

    async def give_up(self, announcement: Announcement) -> None:
        """Remove one."""
        if announcement in self.waiting:
            self.waiting.remove(announcement)


class Queues:
    """Records what was sent; sending to a queue in `gone` fails."""

    def __init__(self) -> None:
        self.told: list[Announcement] = []
        self.gone: set[str | None] = set()
        self.attempts = 0

    async def send(self, announcement: Announcement) -> None:
        """Record the announcement, or raise as Service Bus does."""
        self.attempts += 1
        if announcement.reply_to in self.gone:
            raise TransientError("Service Bus: MessagingEntityNotFoundError")
        self.told.append(announcement)


class RecordedRequests:
    """Records the requested Schedulers."""

    def __init__(self) -> None:
        self.asked: list[tuple[TaskId, Epoch]] = []

    async def request(self, task: Task, queued: Sequence[StepName]) -> None:  # noqa: ARG002 - the port's
        """Record the request."""
        self.asked.append((task.order_id, task.epoch))


class RecordedHeartbeat:
    """Records the heartbeats."""

    def __init__(self) -> None:
        self.beats: list[Mapping[str, Any]] = []
        self.failure: Exception | None = None

    async def beat(self, figures: Mapping[str, Any]) -> None:
        """Record the heartbeat, or raise what the test has set."""
        if self.failure is not None:
            raise self.failure
        self.beats.append(figures)

    async def latest(self) -> Mapping[str, Any] | None:
        """Return the last one."""
        return self.beats[-1] if self.beats else None
