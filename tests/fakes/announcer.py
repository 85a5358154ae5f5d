"""Records announced changes."""

from __future__ import annotations

from functions.pattern.records import TaskRecord


class RecordingAnnouncer:
    """Sends nothing, and records the state before and after each change."""

    def __init__(self) -> None:
        self.changes: list[tuple[TaskRecord | None, TaskRecord]] = []

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Record the change."""
        self.changes.append((before, after))
