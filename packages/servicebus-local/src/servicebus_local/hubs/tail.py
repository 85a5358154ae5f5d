"""The newest events of all partitions, in memory: most readers read only these."""

from __future__ import annotations

from collections import deque

from servicebus_local.hubs.event import Event

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
