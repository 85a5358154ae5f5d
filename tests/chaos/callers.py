"""Callers of the application: they submit until they are heard, some of them twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus

import aiohttp

from local.callers.client import SAMPLE_ORDER
from tests.chaos.faults import FaultKind
from tests.chaos.plan import Plan, PlannedOrder
from tests.chaos.tally import Tally

#: The queue on which they want to be told what becomes of their orders.
REPLY_QUEUE = "notices-demo"
#: Seconds that one request gets, and those before it is repeated.
_TIMEOUT = aiohttp.ClientTimeout(total=8)
_PAUSE = 0.4


class Callers:
    """Submits a plan's orders, each under its own id, again and again until it is accepted."""

    def __init__(self, url: str, plan: Plan, tally: Tally) -> None:
        self._url = url
        self._plan = plan
        self._tally = tally
        self._waiting = set(plan.fates)
        self._accepted: dict[str, datetime] = {}
        self._refused: dict[str, str] = {}
        self._hurry = asyncio.Event()

    @property
    def accepted(self) -> dict[str, datetime]:
        """When each order was first answered 202, in UTC."""
        return self._accepted

    @property
    def refused(self) -> dict[str, str]:
        """What was answered to an order that should have been accepted, and never will be."""
        return self._refused

    @property
    def waiting(self) -> list[str]:
        """Orders that are not accepted yet, or were not when they were submitted again."""
        return sorted(self._waiting)

    def hurry(self) -> None:
        """Submit at once what is held back: no fault waits for it any more."""
        self._hurry.set()

    async def submit_all(self) -> None:
        """Submit every order at its time; ends when all are accepted or refused for good."""
        async with (
            aiohttp.ClientSession(self._url, timeout=_TIMEOUT) as session,
            asyncio.TaskGroup() as calls,
        ):
            for order in self._plan.orders:
                calls.create_task(self._submit(session, order))

    async def _submit(self, session: aiohttp.ClientSession, order: PlannedOrder) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), order.at)
        await self._until_accepted(session, order)
        if order.again is not None:
            await asyncio.sleep(order.again)
            await self._until_accepted(session, order)
            self._tally.add(FaultKind.SUBMITTED_TWICE)
        self._waiting.remove(order.id)

    async def _until_accepted(self, session: aiohttp.ClientSession, order: PlannedOrder) -> None:
        body = SAMPLE_ORDER | {"reply_to": REPLY_QUEUE, "correlation_id": f"for-{order.id}"}
        while True:
            try:
                async with session.put(f"/api/orders/{order.id}", json=body) as answer:
                    if answer.status in {HTTPStatus.ACCEPTED, HTTPStatus.OK}:
                        self._accepted.setdefault(order.id, datetime.now(UTC))
                        return
                    if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                        self._refused[order.id] = f"{answer.status} {await answer.text()}"
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass  # the host is away, or slow
            await asyncio.sleep(_PAUSE)
