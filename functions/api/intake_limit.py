"""The limit of the intake: new orders are answered with 429 while the backlog of submissions is too large."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from http import HTTPStatus

from starlette.types import Scope

from functions.api.event_routes import EVENT_PATHS
from functions.messaging.intake_measurement import IntakeBounds, IntakeMeasurement
from functions.storage.table_contract import StorageError
from functions.web.problems import ProblemError, ProblemKind

#: Seconds between two reads of the measurement.
_READ_INTERVAL = 3.0

#: The type of this problem; the limit of one caller's requests has no type of its own.
TOO_MANY_ORDERS = ProblemKind("urn:problem-type:too-many-orders-wait", "Too Many Orders Wait")


class IntakeLimit:
    """Rejects new orders by the newest measurement. No request waits for a read. `now` is in UTC."""

    def __init__(
        self,
        read: Callable[[], Awaitable[IntakeMeasurement | None]],
        bounds: IntakeBounds,
        now: Callable[[], datetime],
    ) -> None:
        self._read, self._bounds, self._now = read, bounds, now
        self._newest: IntakeMeasurement | None = None
        self._reading: asyncio.Task[None] | None = None
        self._next_at = 0.0

    def check(self, scope: Scope) -> None:
        """Raise `ProblemError` 429 for a request with new orders while the backlog is too large."""
        if scope["method"] not in {"POST", "PUT"} or EVENT_PATHS.fullmatch(scope["path"]):
            return
        self._refresh()
        seconds = 0 if self._newest is None else self._newest.retry_after(self._bounds, self._now())
        if seconds:
            text = "Too many orders of all callers wait. Try again later, with the same id."
            retry_after = {"Retry-After": str(seconds)}
            raise ProblemError(HTTPStatus.TOO_MANY_REQUESTS, text, headers=retry_after, kind=TOO_MANY_ORDERS)

    def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next_at and (self._reading is None or self._reading.done()):
            self._next_at = now + _READ_INTERVAL
            self._reading = asyncio.create_task(self._read_newest())

    async def _read_newest(self) -> None:
        try:
            self._newest = await self._read()
        except StorageError:
            return  # the last measurement counts until it is too old
