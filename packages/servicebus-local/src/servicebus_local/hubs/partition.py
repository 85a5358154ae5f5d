"""A partition: events in order, without gaps, kept until their retention ends; and where a reader starts."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import assert_never

from servicebus_local.broker.timers import now_ms
from servicebus_local.errors import ArgumentError
from servicebus_local.hubs.event import Event, EventContent
from servicebus_local.hubs.journal import CHUNK_EVENTS, HubJournal, Numbers

_SELECTOR = re.compile(r"amqp\.annotation\.(x-opt-[a-z-]+)\s*(>=?)\s*'?([^'\s]+)'?")
_LATEST = "@latest"
_BEFORE_ALL = -1


class Place(StrEnum):
    """The annotations that a start can name."""

    #: Bytes before the event in its partition; `@latest` is the end.
    OFFSET = "x-opt-offset"
    SEQUENCE_NUMBER = "x-opt-sequence-number"
    #: When the event was appended, in milliseconds since 1970 UTC.
    ENQUEUED_TIME = "x-opt-enqueued-time"


@dataclass(frozen=True, slots=True)
class Start:
    """The first event is the one after a value, or, inclusive, the one with it. None: the end."""

    place: Place = Place.OFFSET
    value: int | None = _BEFORE_ALL
    inclusive: bool = False

    @classmethod
    def read(cls, selector: str | None) -> Start:
        """Read a selector; without one it is the start of the partition. Raises ArgumentError."""
        if selector is None:
            return cls()
        match = _SELECTOR.fullmatch(selector.strip())
        try:
            place, value = Place(match[1] if match else ""), match[3] if match else ""
            number = None if value == _LATEST else int(value)
        except ValueError as error:
            raise ArgumentError(f"The filter '{selector}' is not one of a position.") from error
        return cls(place, number, match is not None and match[2] == ">=")


_MEGABYTE = 1024 * 1024


class Tail:
    """Limits the events in memory of all partitions together, in number and in bytes."""

    def __init__(self, max_events: int = 20_000, max_bytes: int = 64 * _MEGABYTE) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._order: deque[tuple[deque[Event], Event]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._order)

    def add(self, own: deque[Event], event: Event) -> None:
        """Add an event to its partition's deque, and drop the oldest events above the limits."""
        own.append(event)
        self._order.append((own, event))
        self._bytes += len(event.wire)
        while len(self._order) > self._max_events or self._bytes > self._max_bytes:
            owner, oldest = self._order.popleft()
            self._bytes -= len(oldest.wire)
            if owner and owner[0] is oldest:  # else retention has dropped it already
                owner.popleft()


#: Time of the last event of a partition that never had one: the beginning of the year 1.
NEVER_MS = -62135596800000
_NO_OFFSET = -1


class Partition:
    """One partition of a hub. Readers see committed events only."""

    def __init__(self, hub_key: str, number: int, journal: HubJournal, tail: Tail) -> None:
        self.hub_key = hub_key
        self.number = number
        self._journal = journal
        self._tail = tail
        #: The newest events, without a gap up to the last.
        self._recent: deque[Event] = deque()
        #: Callbacks that run after each commit.
        self.watchers: set[Callable[[], object]] = set()
        numbers = journal.numbers(hub_key, number)
        if numbers is None:
            numbers = Numbers(now_ms(), 0, 0, 0, _NO_OFFSET, NEVER_MS)
            journal.save(hub_key, number, numbers)
        self.created_ms = numbers.created_ms
        self.begin = numbers.begin
        #: The number after the last committed event.
        self.committed = self._next_number = numbers.next_number
        self._next_offset = numbers.next_offset
        self.last_offset = self._appended_offset = numbers.last_offset
        self.last_enqueued_ms = self._appended_ms = numbers.last_enqueued_ms

    @property
    def last_number(self) -> int:
        """The number of the last committed event, -1 if there never was one."""
        return self.committed - 1

    @property
    def is_empty(self) -> bool:
        """Whether it has no stored event."""
        return self.begin == self.committed

    @property
    def kept_bytes(self) -> int:
        """Size of the stored events in bytes, which is the difference of their offsets."""
        return 0 if self.is_empty else self._next_offset - self._place(self.begin)[0]

    # Appending

    def append(self, contents: Sequence[EventContent]) -> None:
        """Append events, which are readable after the commit."""
        now = max(now_ms(), self._appended_ms)
        for content in contents:
            event = content.event(self._next_number, self._next_offset, now)
            self._next_number += 1
            self._next_offset += len(event.wire)
            self._journal.insert(self.hub_key, self.number, event)
            self._tail.add(self._recent, event)
            self._appended_offset, self._appended_ms = event.offset, now
        self._journal.then(self._publish, self._next_number, self._appended_offset, self._appended_ms)

    def _publish(self, committed: int, last_offset: int, last_enqueued_ms: int) -> None:
        self.committed, self.last_offset, self.last_enqueued_ms = committed, last_offset, last_enqueued_ms
        for wake in list(self.watchers):
            wake()

    # Reading

    def recent(self, first: int) -> list[Event] | None:
        """Return committed events from `first`; None if that event is only in the log."""
        if not self._recent or self._recent[0].sequence_number > first:
            return None
        skipped = first - self._recent[0].sequence_number
        return list(islice(self._recent, skipped, skipped + min(CHUNK_EVENTS, self.committed - first)))

    def read_older(self, first: int, then: Callable[[list[Event]], object]) -> None:
        """Read committed events from `first` in the log, and call `then` with them."""
        self._journal.read_older(self.hub_key, self.number, first, self.committed, then)

    def first_after(self, start: Start) -> int:
        """Return the number of the first event to read. Raises ArgumentError for a start beyond the end."""
        if start.value is None:
            return self.committed
        bisect = bisect_left if start.inclusive else bisect_right
        kept = range(self.begin, self.committed)
        match start.place:
            case Place.OFFSET:
                self._check("offset", start.value, self.last_offset)
                return self.begin + bisect(kept, start.value, key=lambda number: self._place(number)[0])
            case Place.SEQUENCE_NUMBER:
                self._check("sequence number", start.value, self.last_number)
                return self.begin + bisect(kept, start.value)
            case Place.ENQUEUED_TIME:
                return self.begin + bisect(kept, start.value, key=lambda number: self._place(number)[1])
            case _:
                assert_never(start.place)

    def _check(self, what: str, wanted: int, last: int) -> None:
        if wanted > last:
            raise ArgumentError(
                f"The supplied {what} '{wanted}' is invalid. The last {what} in the system is '{last}'"
            )

    def _place(self, number: int) -> tuple[int, int]:
        """Return offset and time of a stored, committed event."""
        if self._recent and self._recent[0].sequence_number <= number:
            event = self._recent[number - self._recent[0].sequence_number]
            return event.offset, event.enqueued_ms
        return self._journal.place(self.hub_key, self.number, number)

    # Retention

    def first_kept(self, enqueued_since_ms: int, max_bytes: int) -> int:
        """Return the number of the first event within the retention time and the size limit."""
        kept = range(self.begin, self.committed)
        young = bisect_left(kept, enqueued_since_ms, key=lambda number: self._place(number)[1])
        fitting = bisect_left(kept, self._next_offset - max_bytes, key=lambda number: self._place(number)[0])
        return self.begin + max(young, fitting)

    def drop_before(self, number: int) -> int:
        """Delete the committed events before a number, and return how many there were."""
        dropped = min(number, self.committed) - self.begin
        if dropped <= 0:
            return 0
        self.begin += dropped
        while self._recent and self._recent[0].sequence_number < self.begin:
            self._recent.popleft()
        self._journal.drop_before(self.hub_key, self.number, self._numbers())
        return dropped

    def _numbers(self) -> Numbers:
        return Numbers(
            created_ms=self.created_ms,
            begin=self.begin,
            next_number=self._next_number,
            next_offset=self._next_offset,
            last_offset=self._appended_offset,
            last_enqueued_ms=self._appended_ms,
        )
