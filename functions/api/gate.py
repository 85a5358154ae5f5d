"""The gate before the intake, closed while too much waits, and the application's health."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.types import Scope

from functions.api.events import EVENT_PATHS
from functions.pattern.errors import TransientError
from functions.pattern.intake import IntakeState, read_intake
from functions.pattern.ports import Clock
from functions.web.problems import ProblemError, ProblemKind

#: Seconds for which what was read, or found, is not looked at again.
_REMEMBERED_SECONDS = 1.0

_SUBMITTING = frozenset({"POST", "PUT"})

#: Tells this from a caller's own cap, which has no type of its own.
TOO_MANY_WAIT = ProblemKind("urn:problem-type:too-many-orders-wait", "Too Many Orders Wait")


class Gate:
    """Refuses orders by what a timer has measured, which is read once a second at most; no request waits."""

    def __init__(self, read: Callable[[], Awaitable[Mapping[str, Any] | None]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._known: IntakeState | None = None
        self._reading: asyncio.Task[None] | None = None
        self._next_at = 0.0

    def check(self, scope: Scope) -> None:
        """Let a request pass that brings no order, or while the gate is open. Raises `ProblemError` 429."""
        if scope["method"] not in _SUBMITTING or EVENT_PATHS.fullmatch(scope["path"]):
            return
        self._look_again()
        seconds = 0 if self._known is None else self._known.closed_for(self._clock.now())
        if seconds:
            text = "Too many orders wait already, whoever sent them. Repeat yours later, by its id."
            raise ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": str(seconds)}, kind=TOO_MANY_WAIT
            )

    def _look_again(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next_at and (self._reading is None or self._reading.done()):
            self._next_at = now + _REMEMBERED_SECONDS
            self._reading = asyncio.create_task(self._look())

    async def _look(self) -> None:
        try:
            self._known = read_intake(await self._read())
        except TransientError:
            return


class StoreHealth:
    """Looks whether the state store answers, once a second at most; all who ask meanwhile share a look."""

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check = check
        self._look: asyncio.Task[str | None] | None = None
        self._over_at = 0.0

    async def check(self) -> None:
        """Look, or remember. Raises `TransientError` when the store does not answer, or did not just now."""
        look = self._look
        if look is None or (look.done() and asyncio.get_running_loop().time() >= self._over_at):
            self._look = look = asyncio.create_task(self._looked())
        fault = await asyncio.shield(look)
        if fault is not None:
            raise TransientError(fault)

    async def _looked(self) -> str | None:
        self._over_at = asyncio.get_running_loop().time() + _REMEMBERED_SECONDS
        try:
            await self._check()
        except TransientError as fault:
            return str(fault)
        return None
