"""Faults that the broker injects into itself, on request to its administration."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from itertools import cycle
from random import Random
from typing import Any

import aiohttp

from tests.chaos.plan.faults import InjectedFault, Injection

_SUBMISSIONS = "submissions"
#: Queues that the application receives from, beside that for submissions.
_QUEUES = (
    "agent-payment-requests",
    "agent-replies",
    "scheduler-requests",
    "operator-alerts",
)
_BUSY_ANSWERS = 8
_MOST_TWICE = 20
_MILLISECONDS = (300, 3_000)
#: Seconds; a message is locked for a few hundredths of a second.
_LOOK_EVERY = 0.02
#: Seconds for which a fault that has affected nothing is kept beyond its own time.
_PATIENCE = 10.0
#: Seconds for one request; the broker may be frozen.
_TIMEOUT = aiohttp.ClientTimeout(total=2)


class BrokerFaults:
    """Injects the broker's faults, each into the queues in turn; the broker may be down at that moment."""

    def __init__(self, admin: str, random: Random, *, by_hub: bool) -> None:
        """Leave the queue for submissions alone if orders come through the hub."""
        self._admin = admin
        self._random = random
        self._queues = _QUEUES if by_hub else (_SUBMISSIONS, *_QUEUES)
        self._turns = defaultdict[InjectedFault, Iterator[str]](lambda: cycle(self._queues))

    async def inject(self, injection: Injection) -> int:
        """Inject the fault, end it, and return how often it affected something."""
        async with aiohttp.ClientSession(self._admin, timeout=_TIMEOUT) as session:
            try:
                return await self._by_kind(injection, session)
            except (aiohttp.ClientError, TimeoutError):
                return 0  # an outage of the broker ends its own faults too

    async def end_all(self) -> None:
        """End all faults; the broker runs by now, and may be slow."""
        async with aiohttp.ClientSession(self._admin) as session:
            await session.delete("/faults")

    async def _by_kind(self, injection: Injection, session: aiohttp.ClientSession) -> int:
        match injection.fault:
            case InjectedFault.CONNECTIONS_DROPPED:
                return await _post(session, {"kind": "drop-connections"})
            case InjectedFault.LINKS_DETACHED:
                return await _post(session, {"kind": "detach-links"})
            case InjectedFault.LOCKS_EXPIRED:
                return await self._expire_locks(session, injection.lasts)
            case _:
                return await self._for_a_while(session, self._body(injection.fault), injection.lasts)

    def _body(self, fault: InjectedFault) -> dict[str, Any]:
        queue = {"queue": next(self._turns[fault])}
        late = queue | {"milliseconds": self._random.randint(*_MILLISECONDS)}
        bodies: Mapping[InjectedFault, dict[str, Any]] = {
            InjectedFault.SERVER_BUSY: queue | {"kind": "server-busy", "count": _BUSY_ANSWERS},
            InjectedFault.DELIVERED_TWICE: queue | {"kind": "deliver-twice", "count": _MOST_TWICE},
            InjectedFault.DELIVERED_LATE: late | {"kind": "delay-deliveries"},
            InjectedFault.ACKNOWLEDGED_LATE: late | {"kind": "delay-acknowledgements"},
        }
        return bodies[fault]

    async def _for_a_while(self, session: aiohttp.ClientSession, body: dict[str, Any], seconds: float) -> int:
        await _post(session, body)
        await asyncio.sleep(seconds)
        for _ in range(int(_PATIENCE / _LOOK_EVERY)):
            if await _fired(session):
                break
            await asyncio.sleep(_LOOK_EVERY)
        fired = await _fired(session)
        await session.delete("/faults")
        return fired

    async def _expire_locks(self, session: aiohttp.ClientSession, seconds: float) -> int:
        """Retry until a message is locked at that moment."""
        for _ in range(int((seconds + _PATIENCE) / _LOOK_EVERY)):
            expired = await _post(session, {"kind": "expire-locks", "queue": self._queues[0]})
            if expired:
                return expired
            await asyncio.sleep(_LOOK_EVERY)
        return 0


async def _fired(session: aiohttp.ClientSession) -> int:
    async with session.get("/faults", raise_for_status=True) as answer:
        return sum(fault["fired"] for fault in await answer.json())


async def _post(session: aiohttp.ClientSession, body: Mapping[str, Any]) -> int:
    async with session.post("/faults", json=body) as answer:
        if answer.status != HTTPStatus.CREATED:
            raise RuntimeError(f"the broker refused the fault {body}: {await answer.text()}")
        fired: int = (await answer.json())["fired"]
        return fired
