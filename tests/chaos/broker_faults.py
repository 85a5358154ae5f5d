"""Faults of the broker, by its administration."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from random import Random
from typing import Any

import aiohttp

from tests.chaos.faults import Fault, FaultKind

#: Queues that the application receives from.
_QUEUES = (
    "submissions",
    "agent-payment-requests",
    "agent-replies",
    "scheduler-requests",
    "operator-alerts",
)
_BUSY_ANSWERS = 8
_MOST_TWICE = 20
_MILLISECONDS = (300, 3_000)
#: Seconds; a message is locked for some hundredths of a second.
_LOOK_EVERY = 0.02
#: Seconds for which a fault that has met nobody is kept beyond its own time.
_PATIENCE = 10.0
#: Seconds that one request gets; the broker may be standing still.
_TIMEOUT = aiohttp.ClientTimeout(total=2)


class BrokerFaults:
    """Brings about what the broker can do by itself; it may be away at that moment."""

    def __init__(self, admin: str, random: Random) -> None:
        self._admin = admin
        self._random = random

    async def happen(self, fault: Fault) -> int:
        """Let the fault begin and end, and tell how often it met something."""
        async with aiohttp.ClientSession(self._admin, timeout=_TIMEOUT) as session:
            try:
                return await self._happen(fault, session)
            except (aiohttp.ClientError, TimeoutError):
                return 0  # an outage of the broker takes its own faults with it

    async def heal(self) -> None:
        """End all faults."""
        async with aiohttp.ClientSession(self._admin, timeout=_TIMEOUT) as session:
            await session.delete("/faults")

    async def _happen(self, fault: Fault, session: aiohttp.ClientSession) -> int:
        match fault.kind:
            case FaultKind.CONNECTIONS_DROPPED:
                return await _inject(session, {"kind": "drop-connections"})
            case FaultKind.LINKS_DETACHED:
                return await _inject(session, {"kind": "detach-links"})
            case FaultKind.LOCKS_EXPIRED:
                return await self._expire_locks(session, fault.lasts)
            case _:
                return await self._for_a_while(session, self._body(fault.kind), fault.lasts)

    def _body(self, kind: FaultKind) -> dict[str, Any]:
        queue = {"queue": self._random.choice(_QUEUES)}
        late = queue | {"milliseconds": self._random.randint(*_MILLISECONDS)}
        bodies: Mapping[FaultKind, dict[str, Any]] = {
            FaultKind.SERVER_BUSY: queue | {"kind": "server-busy", "count": _BUSY_ANSWERS},
            FaultKind.DELIVERED_TWICE: queue | {"kind": "deliver-twice", "count": _MOST_TWICE},
            FaultKind.DELIVERED_LATE: late | {"kind": "delay-deliveries"},
            FaultKind.ACKNOWLEDGED_LATE: late | {"kind": "delay-acknowledgements"},
        }
        return bodies[kind]

    async def _for_a_while(self, session: aiohttp.ClientSession, body: dict[str, Any], seconds: float) -> int:
        await _inject(session, body)
        await asyncio.sleep(seconds)
        for _ in range(int(_PATIENCE / _LOOK_EVERY)):
            if await _fired(session):
                break
            await asyncio.sleep(_LOOK_EVERY)
        fired = await _fired(session)
        await session.delete("/faults")
        return fired

    async def _expire_locks(self, session: aiohttp.ClientSession, seconds: float) -> int:
        """Look for a moment at which a message is locked."""
        for _ in range(int((seconds + _PATIENCE) / _LOOK_EVERY)):
            expired = await _inject(session, {"kind": "expire-locks", "queue": "submissions"})
            if expired:
                return expired
            await asyncio.sleep(_LOOK_EVERY)
        return 0


async def _fired(session: aiohttp.ClientSession) -> int:
    async with session.get("/faults", raise_for_status=True) as answer:
        return sum(fault["fired"] for fault in await answer.json())


async def _inject(session: aiohttp.ClientSession, body: Mapping[str, Any]) -> int:
    async with session.post("/faults", json=body) as answer:
        if answer.status != HTTPStatus.CREATED:
            raise RuntimeError(f"the broker refused the fault {body}: {await answer.text()}")
        fired: int = (await answer.json())["fired"]
        return fired
