"""The remote services: each call has a manner in which it is answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from tests.simulation.remotes.ledger import CallEffect, RemoteCall, RemoteLedger
from tests.simulation.world.world import World


class Manner(Enum):
    """How one call is answered."""

    #: As it should be.
    DONE = "done"
    #: With 400: it will never be done.
    REFUSED = "refused"
    #: With 503, and not done.
    FAILING = "failing"
    #: With 429, and a time to wait.
    THROTTLED = "throttled"
    #: With 503, though it was done.
    DONE_AND_FAILING = "done, and failing"
    #: Not at all.
    HANGING = "hanging"
    #: Late: it is done when its caller has gone.
    LATE = "late"
    #: With what is no JSON, though it was done.
    GARBLED = "garbled"


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """Status, body and headers."""

    status: int
    body: bytes = b""
    retry_after: str | None = None


class RemoteServices:
    """Every Agent's service. `manner` decides of each call; `result` makes what a service answers."""

    def __init__(self, world: World, ledger: RemoteLedger) -> None:
        self._world = world
        self.ledger = ledger
        self.manner: Callable[[RemoteCall], Manner] = lambda _call: Manner.DONE
        self.result: Callable[[RemoteCall], bytes] = lambda call: b'{"done":"%b"}' % call.step.encode()
        #: Is told of each call that does or undoes something, as it arrives.
        self.arrived: Callable[[RemoteCall], None] = lambda _call: None
        self.alerts: list[Any] = []
        #: Agents that have read something.
        self.readers: set[str] = set()
        self._in_flight: Counter[str] = Counter()
        self.most_in_flight: Counter[str] = Counter()

    @contextmanager
    def in_flight(self, agent: str) -> Iterator[None]:
        """Count a call as long as its caller waits."""
        self._in_flight[agent] += 1
        self.most_in_flight[agent] = max(self.most_in_flight[agent], self._in_flight[agent])
        try:
            yield
        finally:
            self._in_flight[agent] -= 1

    def read(self, agent: str, resource: str) -> ServiceAnswer:
        """Answer a GET, which changes nothing."""
        self.readers.add(agent)
        return ServiceAnswer(200, self.result(RemoteCall(agent, f"{resource}/GET", 0.0)))

    async def take(self, agent: str, key: str, sent_at: datetime, body: bytes) -> ServiceAnswer:
        """Take one call that does or undoes something."""
        call = RemoteCall(agent, key, self._world.loop.time(), sent_at, body)
        self.ledger.calls.append(call)
        self.arrived(call)
        try:
            return await self._answered(call, self.manner(call))
        finally:
            call.is_open = False

    async def _answered(self, call: RemoteCall, manner: Manner) -> ServiceAnswer:
        if manner is not Manner.DONE:
            self._world.fault(f"service {manner.value}", call.agent, call.key)
        match manner:
            case Manner.REFUSED:
                return ServiceAnswer(400, b'{"why":"no"}')
            case Manner.FAILING:
                return ServiceAnswer(503)
            case Manner.THROTTLED:
                return ServiceAnswer(429, retry_after="2")
            case Manner.HANGING:
                await asyncio.sleep(3_600)
                return ServiceAnswer(503)
            case Manner.LATE:
                call.is_late = True
                await asyncio.sleep(self._world.chance("late calls").uniform(5, 400))
            case _:
                pass
        if call.takes:
            await asyncio.sleep(call.takes)
        effect = self.ledger.carry_out(call, self._world.loop.time())
        self._world.tell(call.agent, f"{call.key}: {effect}")
        return self._answer(call, manner, effect)

    def _answer(self, call: RemoteCall, manner: Manner, effect: CallEffect) -> ServiceAnswer:
        if manner is Manner.DONE_AND_FAILING:
            return ServiceAnswer(503)
        if manner is Manner.GARBLED:
            return ServiceAnswer(200, b"<html>")
        if effect is CallEffect.TOMBSTONED:
            return ServiceAnswer(410)
        if call.is_undo:
            return ServiceAnswer(204)
        result = self.result(call)
        self.ledger.answers[call.step].add(result)
        return ServiceAnswer(200, result)
