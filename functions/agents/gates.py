"""The gates of remote services and Agent queues: signatures only, until the gates are merged."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from functions.core.gate_rules import Gate
from functions.core.task_events import OutcomeKind


class NoFreeSlotError(Exception):
    """No call of a gate ended in time, so that another one could begin: the service was not called."""


class Gates:
    """Reads and changes gates."""

    def call(self, name: str, until: datetime) -> AbstractAsyncContextManager[None]:
        """Limit the calls of this instance. Raises `NoFreeSlotError` if none may begin until a time (UTC)."""
        raise NotImplementedError

    async def refresh(self, *, is_forced: bool = False) -> Mapping[str, Gate]:
        """Read all gates if they were not read lately. With `is_forced`, it raises storage errors."""
        raise NotImplementedError

    def of(self, name: str) -> Gate | None:
        """Return a gate as it was last read."""
        raise NotImplementedError

    async def report(self, name: str, kind: OutcomeKind, began_at: datetime) -> None:
        """Count the outcome of a call. It raises nothing."""
        raise NotImplementedError

    async def reply(self, name: str, sent_at: datetime | None, *, is_taken: bool) -> None:
        """Count the reply of an Agent behind a queue. It raises nothing."""
        raise NotImplementedError

    async def release(self, name: str, link: int) -> None:
        """Release the steps that wait longest behind a gate."""
        raise NotImplementedError
