"""One reader's position in a partition: reads from memory, or from the log for older events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from servicebus_local.hubs.event import Event
from servicebus_local.hubs.partition import Partition


class Cursor:
    """Returns events one after the other, and calls `wake` when new events follow after the last one."""

    def __init__(self, partition: Partition, first: int, wake: Callable[[], object]) -> None:
        self.partition = partition
        self._next = first
        self._wake = wake
        self._chunk: deque[Event] = deque()
        self._reading = False
        partition.watchers.add(wake)

    def close(self) -> None:
        """Return no more events, and stop calling `wake`."""
        self.partition.watchers.discard(self._wake)
        self._chunk.clear()
        self._reading = True

    def take(self) -> Event | None:
        """Return the next event, or None if there is none yet or the read from the log is pending."""
        if not self._chunk and not self._reading:
            self._fill()
        return self._chunk.popleft() if self._chunk else None

    def _fill(self) -> None:
        partition = self.partition
        self._next = max(self._next, partition.begin)  # skip the events that retention has dropped
        if self._next >= partition.committed:
            return
        recent = partition.recent(self._next)
        if recent is not None:
            self._add(recent)
            return
        self._reading = True
        partition.read_older(self._next, self._on_read)

    def _on_read(self, events: list[Event]) -> None:
        if self._wake not in self.partition.watchers:
            return
        self._reading = False
        self._add(events)
        if events or self._next < self.partition.begin:
            self._wake()

    def _add(self, events: list[Event]) -> None:
        self._chunk.extend(events)
        if events:
            self._next = events[-1].sequence_number + 1
