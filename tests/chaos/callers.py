"""The callers of a run: each sends its requests again until the application answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from itertools import cycle

import aiohttp

from local.callers.client import SAMPLE_DELIVERY, SAMPLE_ORDER
from tests.chaos.plan import PlannedOrder

REPLY_QUEUE = "notices-demo"
#: Seconds for one request, and before it is sent again.
_TIMEOUT = aiohttp.ClientTimeout(total=8)
_PAUSE = 0.4
_CONTENTS = {"orders": SAMPLE_ORDER, "deliveries": SAMPLE_DELIVERY}


class Callers:
    """Submit the planned orders, each under its own id, and cancel some. They use the hosts in turn."""

    def __init__(self, urls: Sequence[str], orders: Sequence[PlannedOrder]) -> None:
        self._urls = cycle(urls)
        self.orders = orders
        self._more = asyncio.Semaphore(0)
        #: Orders whose caller has work left.
        self.waiting = {order.id for order in orders}
        self.accepted: set[str] = set()
        #: The answer to each order that was not accepted.
        self.rejections: dict[str, str] = {}
        #: Orders whose cancel was answered 202.
        self.cancelled: set[str] = set()

    def send_one_more(self) -> None:
        """Submit the next order that is held back, if one is left."""
        self._more.release()

    def send_the_rest(self) -> None:
        """Submit all orders that are held back."""
        for _ in self.orders:
            self._more.release()

    async def submit_all(self) -> None:
        """Submit each order at its time; return when each caller has its answers."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, asyncio.TaskGroup() as calls:
            for order in self.orders:
                calls.create_task(self._call(session, order))

    async def _call(self, session: aiohttp.ClientSession, order: PlannedOrder) -> None:
        if order.at is None:
            await self._more.acquire()
        else:
            await asyncio.sleep(order.at)
        names = {"reply_to": REPLY_QUEUE, "correlation_id": f"for-{order.id}"}
        status, text = await self._until_answered(session, "PUT", order, _CONTENTS[order.resource] | names)
        if status in {HTTPStatus.OK, HTTPStatus.ACCEPTED}:
            self.accepted.add(order.id)
        else:
            self.rejections[order.id] = f"{status} {text}"
        if order.cancelled is not None:
            await asyncio.sleep(order.cancelled)
            status, _ = await self._until_answered(session, "DELETE", order, None)
            if status == HTTPStatus.ACCEPTED:
                self.cancelled.add(order.id)
        self.waiting.remove(order.id)

    async def _until_answered(
        self, session: aiohttp.ClientSession, method: str, order: PlannedOrder, body: object
    ) -> tuple[int, str]:
        """Return the first answer below 500; 404 is none, since a task exists some time after its order."""
        while True:
            address = f"{next(self._urls)}/api/{order.resource}/{order.id}"
            try:
                async with session.request(method, address, json=body) as answer:
                    if (
                        answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
                        and answer.status != HTTPStatus.NOT_FOUND
                    ):
                        return answer.status, await answer.text()
            except (aiohttp.ClientError, TimeoutError):
                pass  # the host is down, or slow
            await asyncio.sleep(_PAUSE)
