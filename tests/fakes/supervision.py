"""What the Supervisor uses besides store and index: policy, outbox, queues, heartbeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from functions.pattern.announcements import Announcement
from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.records import Task
from functions.pattern.shared_rows import Chore
from functions.pattern.store_ports import OutboxPage
from functions.pattern.supervision import SupervisionPolicy
from functions.store.keys import beyond_queue, outbox_row

#: Two immediate recoveries, one after a minute; clock skew of at most five seconds.
POLICY = SupervisionPolicy(
    threshold=2,
    extended_waits=(timedelta(minutes=1),),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=30),
)


class MemoryOutbox:
    """Announcements to be sent, all in shard 0, and rows there that can't be read."""

    def __init__(self, *waiting: Announcement) -> None:
        self.waiting = list(waiting)
        self.damaged: list[UnreadableError] = []

    async def unsent(
        self, shard: int, before: datetime, most: int, *, after: str | None = None
    ) -> OutboxPage:
        """Read the oldest of some queues; the next page begins with another queue."""
        waiting = sorted((each for each in self.waiting if each.at < before), key=outbox_row)
        rest = [each for each in waiting if after is None or outbox_row(each) >= after]
        if shard != 0 or not rest:
            return OutboxPage((), tuple(self.damaged) if shard == 0 else ())
        page = tuple(rest[:most])
        following = beyond_queue(outbox_row(page[-1])) if len(rest) > most else None
        return OutboxPage(page, tuple(self.damaged), following)

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
        self.woken: list[tuple[TaskId, int | None, StepName]] = []

    async def request(self, task: Task, queued: Sequence[StepName]) -> None:  # noqa: ARG002 - the port's
        """Record the request."""
        self.asked.append((task.order_id, task.epoch))

    async def wake(self, task: Task, step: StepName) -> None:
        """Record that a Scheduler was to hear of an event."""
        self.woken.append((task.order_id, task.run, step))


class RecordedHeartbeats:
    """Records the heartbeats of all chores, and lists the sweeps'."""

    def __init__(self) -> None:
        self.beats: list[Mapping[str, Any]] = []
        self.failure: Exception | None = None
        self.unread: Exception | None = None
        self._latest: dict[Chore, Mapping[str, Any]] = {}

    async def beat(self, chore: Chore, figures: Mapping[str, Any]) -> None:
        """Record the heartbeat, or raise what the test has set."""
        if self.failure is not None:
            raise self.failure
        if chore is Chore.SWEEP:
            self.beats.append(figures)
        self._latest[chore] = figures

    async def latest(self, chore: Chore) -> Mapping[str, Any] | None:
        """Return the last one of a chore, or raise what the test has set."""
        if self.unread is not None:
            raise self.unread
        return self._latest.get(chore)

    def pretend(self, figures: Mapping[str, Any]) -> None:
        """Have a sweep left these figures."""
        self._latest[Chore.SWEEP] = figures

    def latest_of(self, chore: Chore) -> Mapping[str, Any]:
        """Return the last one of a chore, which there must be."""
        return self._latest[chore]


class RecordedDamage:
    """Records the alerts about rows that can't be read."""

    def __init__(self) -> None:
        self.alerts: list[tuple[int, Mapping[str, str]]] = []

    async def alert(self, rows: int, named: Mapping[str, str]) -> None:
        """Record the alert."""
        self.alerts.append((rows, named))
