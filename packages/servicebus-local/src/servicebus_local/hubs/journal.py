"""The hubs' access to the log: records events, and reads them at the start and for older positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from servicebus_local.hubs.event import Event
from servicebus_local.storage.group_commit import GroupCommit
from servicebus_local.storage.log import MessageLog
from servicebus_local.storage.reader import LogReader
from servicebus_local.storage.schema import Statement

#: Maximum number of events of one read of older events, and its approximate maximum size in bytes.
CHUNK_EVENTS = 300
_CHUNK_BYTES = 1 << 20

_COLUMNS = "SELECT sequence_number, offset, enqueued_ms, wire FROM event WHERE hub=? AND partition=? "
_PLACE = "SELECT offset, enqueued_ms FROM event WHERE hub=? AND partition=? AND sequence_number=?"
_OLDER = (
    f"{_COLUMNS} AND sequence_number>=? AND sequence_number<? ORDER BY sequence_number LIMIT {CHUNK_EVENTS}"
)
_ENDS = "SELECT min(sequence_number), max(sequence_number) FROM event WHERE hub=? AND partition=?"


class Numbers(NamedTuple):
    """The numbers with which a partition resumes."""

    #: When it was made, in milliseconds since 1970 UTC.
    created_ms: int
    #: Number of the oldest stored event; of the next event if none is stored.
    begin: int
    next_number: int
    next_offset: int
    #: Place of the last appended event, stored or not; offset -1 if there was none.
    last_offset: int
    last_enqueued_ms: int


class HubJournal:
    """Typed access to the log."""

    def __init__(self, log: MessageLog, commit: GroupCommit, reader: LogReader) -> None:
        self._log = log
        self._commit = commit
        self._reader = reader

    def then(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback after the commit of all earlier writes."""
        self._commit.then(callback, *arguments)

    def insert(self, hub: str, partition: int, event: Event) -> None:
        """Record a new event."""
        self._commit.write(Statement.INSERT_EVENT, hub, partition, *event)

    def drop_before(self, hub: str, partition: int, numbers: Numbers) -> None:
        """Delete the events before the begin, and record the numbers, which outlive the events."""
        self.save(hub, partition, numbers)
        self._commit.write(Statement.DROP_EVENTS, hub, partition, numbers.begin)

    def save(self, hub: str, partition: int, numbers: Numbers) -> None:
        """Record that a partition exists."""
        created_ms, _, *rest = numbers
        self._commit.write(Statement.SAVE_PARTITION, hub, partition, created_ms, *rest)

    def numbers(self, hub: str, partition: int) -> Numbers | None:
        """Read the numbers with which a partition resumes; None if it is new."""
        saved = self._log.query(
            "SELECT created_ms, next_number, next_offset, last_offset, last_enqueued_ms "
            "FROM hub_partition WHERE hub=? AND partition=?",
            (hub, partition),
        ).fetchone()
        if saved is None:
            return None
        created_ms, next_number, *rest = saved
        first, last = self._log.query(_ENDS, (hub, partition)).fetchone()
        if last is None:
            return Numbers(created_ms, next_number, next_number, *rest)
        newest = Event(
            *self._log.query(_COLUMNS + "AND sequence_number=?", (hub, partition, last)).fetchone()
        )
        next_offset = newest.offset + len(newest.wire)
        return Numbers(created_ms, first, last + 1, next_offset, newest.offset, newest.enqueued_ms)

    def place(self, hub: str, partition: int, number: int) -> tuple[int, int]:
        """Read offset and time of a stored, committed event."""
        offset, enqueued_ms = self._log.query(_PLACE, (hub, partition, number)).fetchone()
        return offset, enqueued_ms

    def read_older(
        self, hub: str, partition: int, first: int, end: int, then: Callable[[list[Event]], object]
    ) -> None:
        """Read committed events on a thread, from one number up to, but without, another."""

        def give(rows: list[tuple[Any, ...]]) -> None:
            then([Event(*row) for row in rows])

        self._reader.read(_OLDER, (hub, partition, first, end), _CHUNK_BYTES, give)
