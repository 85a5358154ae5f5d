"""Duplicate detection: the message ids that a queue received within its window."""

from __future__ import annotations

from itertools import takewhile


class DuplicateWindow:
    """Ids, each with the end of its window (milliseconds since 1970); all windows are equally long."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._until: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._until

    def remember(self, message_id: str, now: int) -> int:
        """Record an id, and return the end of its window."""
        until = now + self._window_ms
        self._until[message_id] = until
        return until

    def restore(self, message_id: str, until: int) -> None:
        """Record an id from the log; ids must be in the order of their windows' ends."""
        self._until[message_id] = until

    def forget_before(self, now: int) -> bool:
        """Drop the ids whose window has passed, and return whether there were any."""
        passed = [message_id for message_id, _ in takewhile(lambda item: item[1] <= now, self._until.items())]
        for message_id in passed:
            del self._until[message_id]
        return bool(passed)
