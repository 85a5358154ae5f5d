"""What the Supervisor works on, in memory: index, lease row, outbox, queues, heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from functions.pattern.announcements import Announcement
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Index, IndexEntry, IndexPage
from functions.pattern.states import ProcessState
from functions.supervisor.figures import Beat
from functions.supervisor.lease import StoredTenure, Tenure
from tests.fakes.store import MemoryStateStore


class MemoryTaskIndex:
    """The index `!due` of a store's tasks, all in the first shard; `extra` entries are not the store's."""

    def __init__(self, store: MemoryStateStore, shards: int = 2) -> None:
        self._store = store
        self.shards = shards
        self.extra: list[IndexEntry] = []
        self.broken: set[int] = set()
        self.requests = 0

    async def page(
        self, index: Index, shard: int, *, until: datetime | None = None, after: str | None = None, most: int
    ) -> IndexPage:
        """Read a page, oldest first."""
        assert index is Index.DUE
        self.requests += 1
        if shard in self.broken:
            raise RuntimeError("this shard can't be read")
        there = sorted(self._entries() if shard == 0 else [], key=_key)
        wanted = [e for e in there if (until is None or e.at < until) and _key(e) > (after or "")]
        page = tuple(wanted[:most])
        return IndexPage(page, _key(page[-1]) if len(wanted) > most else None)

    def _entries(self) -> list[IndexEntry]:
        records = [stored.record for stored in self._store._tasks.values()]
        return self.extra + [
            entry(record.order.task, record.task.due_at)
            for record in records
            if record.task.finished_at is None
        ]


def entry(task: TaskId, at: datetime) -> IndexEntry:
    """Make an entry of the index `!due`."""
    return IndexEntry(task=task, at=at, workflow="line", state=ProcessState.PENDING)


def _key(of: IndexEntry) -> str:
    return f"{of.at.isoformat()}|{of.task}"


class MemoryLeaseRow:
    """A row with a real compare-and-swap; `lose_answer` lets the next write seem to fail."""

    def __init__(self) -> None:
        self.there: StoredTenure | None = None
        self.lose_answer = False
        self.failure: Exception | None = None

    async def read(self) -> StoredTenure | None:
        """Read the row."""
        if self.failure is not None:
            raise self.failure
        return self.there

    async def write(self, tenure: Tenure, version: str | None) -> StoredTenure | None:
        """Write the row when nobody has done so since."""
        if self.failure is not None:
            raise self.failure
        if version != (None if self.there is None else self.there.version):
            return None
        self.there = StoredTenure(tenure, str(int(version or 0) + 1))
        lost, self.lose_answer = self.lose_answer, False
        return None if lost else self.there


class MemoryOutbox:
    """Announcements that wait, all in shard 0."""

    def __init__(self, *waiting: Announcement) -> None:
        self.waiting = list(waiting)

    async def untold(self, shard: int, before: datetime, most: int) -> Sequence[Announcement]:
        """Read the oldest."""
        waiting = self.waiting if shard == 0 else []
        return sorted((each for each in waiting if each.at < before), key=lambda each: each.at)[:most]

    async def told(self, announcement: Announcement) -> None:
        """Forget one."""
        if announcement in self.waiting:
            self.waiting.remove(announcement)


class Queues:
    """Keeps what was told; a queue that is `gone` takes nothing."""

    def __init__(self) -> None:
        self.told: list[Announcement] = []
        self.gone: set[str | None] = set()
        self.attempts = 0

    async def tell(self, announcement: Announcement) -> None:
        """Keep the announcement, or raise as Service Bus does."""
        self.attempts += 1
        if announcement.reply_to in self.gone:
            raise TransientError("Service Bus: MessagingEntityNotFoundError")
        self.told.append(announcement)


class RecordedHeartbeat:
    """Keeps the heartbeats."""

    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self.failure: Exception | None = None

    async def beat(self, beat: Beat) -> None:
        """Keep it, or raise what the test has set."""
        if self.failure is not None:
            raise self.failure
        self.beats.append(beat)
