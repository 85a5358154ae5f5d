"""What each call to a remote service tells of its sending: it may arrive long after that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from aiohttp import ClientRequest, ClientResponse
from aiohttp.connector import Connection
from pydantic import BaseModel

from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent
from functions.machine import SystemClock
from functions.pattern.definition import Json
from functions.pattern.ports import AgentCall

#: The header that tells it.
SENT = "Chaos-Sent"
#: Seconds between two looks whether the event loop comes round.
_LOOK_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class Sending:
    """When a call was sent; true times (UTC), whatever the clock of its host told.

    Its process last had a `turn` then: it may have been frozen since, or without a processor. Its Agent was
    to be done by `ends_at`: until `complete_by` it had so much time when it began, by its own clock.
    """

    at: datetime
    turn: datetime
    ends_at: datetime
    complete_by: datetime


class _Told(BaseModel):
    """The same by the monotonic clock, which all processes of a machine share, and which is never wrong."""

    at: float
    turn: float
    ends_at: float
    complete_by: datetime


def read_sending(header: str) -> Sending:
    """Read what a call has told. Raises `ValueError`."""
    told = _Told.model_validate_json(header)
    at, turn, ends_at = true_times(told.at, told.turn, told.ends_at)
    return Sending(at, turn, ends_at, told.complete_by)


def true_times(*monotonic: float) -> list[datetime]:
    """Give the true times (UTC) at which the machine's monotonic clock told these."""
    now, clock = datetime.now(UTC), time.monotonic()
    return [now + timedelta(seconds=each - clock) for each in monotonic]


class _Turns:
    """Notes when the event loop comes round."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last = self._before = 0.0

    @property
    def latest(self) -> float:
        """When it surely had come round: it may be in the midst of its last turn, and late with that."""
        return self._before

    def watch(self) -> None:
        """Begin to note it, if that was not done yet."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._last = loop, time.monotonic()
            self._note()

    def _note(self) -> None:
        self._before, self._last = self._last, time.monotonic()
        if self._loop is not None:
            self._loop.call_later(_LOOK_EVERY, self._note)


_turns = _Turns()
#: Until when the Agent is to be done whose call is made: by the monotonic clock, and as it was asked.
_limit: ContextVar[tuple[float, datetime] | None] = ContextVar("limit", default=None)


def tell_now(ends_at: float, complete_by: datetime) -> str:
    """Tell of a call that is sent now, by an Agent with so much time; `ends_at` by the monotonic clock."""
    told = _Told(at=time.monotonic(), turn=_turns.latest, ends_at=ends_at, complete_by=complete_by)
    return told.model_dump_json()


class WatchedAgent:
    """The product's REST Agent, whose calls tell when they are sent."""

    def __init__(self, service: RemoteService) -> None:
        self._agent = RestAgent(service)

    async def do(self, call: AgentCall) -> Json:
        """Have it do the step."""
        with _watched(call):
            return await self._agent.do(call)

    async def undo(self, call: AgentCall) -> None:
        """Have it undo the step."""
        with _watched(call):
            await self._agent.undo(call)


@contextmanager
def _watched(call: AgentCall) -> Iterator[None]:
    _turns.watch()
    left = (call.complete_by - SystemClock().now()).total_seconds()
    set_before = _limit.set((time.monotonic() + left, call.complete_by))
    try:
        yield
    finally:
        _limit.reset(set_before)


def stamp_requests() -> None:
    """Have every request of a watched Agent tell when it is sent: last of all, when it has its connection."""
    send = ClientRequest.send

    async def stamped(request: ClientRequest, connection: Connection) -> ClientResponse:
        limit = _limit.get()
        if limit is not None and "Idempotency-Key" in request.headers:
            request.headers[SENT] = tell_now(*limit)
        return await send(request, connection)

    ClientRequest.send = stamped  # type: ignore[assignment,method-assign]
