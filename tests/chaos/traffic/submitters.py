"""Senders of orders and of poison messages: each retries until the application, or the broker, has it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import cycle

import aiohttp
from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from local.callers.client import SAMPLE_ORDER
from tests.chaos.injection.lanes import FaultCounts
from tests.chaos.plan.drawn_orders import body_of
from tests.chaos.plan.faults import InjectedFault
from tests.chaos.plan.schedule import Plan, PlannedOrder, Poison

#: The queue to which callers have the notices about their orders sent.
REPLY_QUEUE = "notices-demo"
_SUBMISSIONS = "submissions"
#: Seconds for one request, and those before it is retried.
_TIMEOUT = aiohttp.ClientTimeout(total=8)
_PAUSE = 0.4
_POISON_PAUSE = 1.0
#: An event was taken, or comes too late.
_TAKEN = frozenset({HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.CONFLICT})


class Callers:
    """Submits a plan's orders, each under its own id, until it is accepted, and cancels some of them.

    Each request goes to the next of the hosts.
    """

    def __init__(self, urls: Sequence[str], plan: Plan, fault_counts: FaultCounts) -> None:
        self._urls = cycle(urls)
        self._plan = plan
        self._fault_counts = fault_counts
        self._waiting = set(plan.scenarios)
        self._accepted: dict[str, datetime] = {}
        self._refused: dict[str, str] = {}
        self._cancelled: set[str] = set()
        self._more = asyncio.Semaphore(0)
        self._begun = datetime.now(UTC)

    @property
    def accepted(self) -> dict[str, datetime]:
        """When each order was first answered 202, in UTC."""
        return self._accepted

    @property
    def refused(self) -> dict[str, str]:
        """The answer to each order that was refused for good, although it should have been accepted."""
        return self._refused

    @property
    def cancelled(self) -> AbstractSet[str]:
        """Orders whose cancel was answered 202."""
        return self._cancelled

    @property
    def waiting(self) -> list[str]:
        """Orders that have not been accepted yet, or not a second time, or are still to be cancelled."""
        return sorted(self._waiting)

    def send_one_more(self) -> None:
        """Submit the next of the orders that are held back, if one is left, as they are planned."""
        self._more.release()

    def send_the_rest(self) -> None:
        """Submit what is held back: no fault needs it any more."""
        for _ in self._waiting:
            self._more.release()

    async def submit_all(self) -> None:
        """Submit every order at its time; ends when all are accepted or refused for good."""
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            asyncio.TaskGroup() as calls,
        ):
            for order in self._plan.orders:
                calls.create_task(self._submit(session, order))

    async def _submit(self, session: aiohttp.ClientSession, order: PlannedOrder) -> None:
        if order.at is None:
            await self._more.acquire()
        else:
            await asyncio.sleep(order.at)
        await self._until_accepted(session, order)
        if order.again is not None:
            await asyncio.sleep(order.again)
            await self._until_accepted(session, order)
            self._fault_counts.add(InjectedFault.SUBMITTED_TWICE)
        if order.cancelled is not None:
            await asyncio.sleep(order.cancelled)
            await self._until_cancelled(session, order)
        for step in order.told:
            await self._until_told(session, order, step)
        self._waiting.remove(order.id)

    async def _until_told(self, session: aiohttp.ClientSession, order: PlannedOrder, step: str) -> None:
        """Tell a step's event until that is taken, or refused: its task has ended, or has no such step."""
        is_recorded = False
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):  # the host is down, or slow
                address = f"{self._address(order)}/events/{step}"
                async with session.post(address, json={"yes": True}) as answer:
                    if answer.status in _TAKEN or (is_recorded and answer.status == HTTPStatus.NOT_FOUND):
                        return
                async with session.get(self._address(order)) as answer:
                    is_recorded = answer.status == HTTPStatus.OK
            await asyncio.sleep(_PAUSE)

    async def _until_cancelled(self, session: aiohttp.ClientSession, order: PlannedOrder) -> None:
        """Cancel an order twice at once, until that is taken, or its operator's (409)."""
        while True:
            answers = await asyncio.gather(*(self._cancel(session, order) for _ in range(2)))
            if HTTPStatus.ACCEPTED in answers:
                self._cancelled.add(order.id)
                self._fault_counts.add(InjectedFault.ORDER_CANCELLED)
                return
            if HTTPStatus.CONFLICT in answers:
                return
            await asyncio.sleep(_PAUSE)

    async def _cancel(self, session: aiohttp.ClientSession, order: PlannedOrder) -> int | None:
        try:
            async with session.delete(self._address(order)) as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return None  # the host is down, or slow

    def _address(self, order: PlannedOrder) -> str:
        return f"{next(self._urls)}/api/{order.resource}/{order.id}"

    async def _until_accepted(self, session: aiohttp.ClientSession, order: PlannedOrder) -> None:
        content = SAMPLE_ORDER if order.drawn is None else body_of(order.drawn, self._begun)
        body = {**content, "reply_to": REPLY_QUEUE, "correlation_id": f"for-{order.id}"}
        while True:
            try:
                async with session.put(self._address(order), json=body) as answer:
                    if answer.status in {HTTPStatus.ACCEPTED, HTTPStatus.OK}:
                        self._accepted.setdefault(order.id, datetime.now(UTC))
                        return
                    if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                        self._refused[order.id] = f"{answer.status} {await answer.text()}"
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass  # the host is down, or slow
            await asyncio.sleep(_PAUSE)


class PoisonSender:
    """Sends a plan's poison messages, each at its time, until the broker has it."""

    def __init__(self, connection: str, plan: Plan, fault_counts: FaultCounts) -> None:
        self._connection = connection
        self._plan = plan
        self._fault_counts = fault_counts
        self._waiting = {poison.id for poison in plan.poison}

    @property
    def waiting(self) -> list[str]:
        """Messages that the broker does not have yet."""
        return sorted(self._waiting)

    async def send_all(self) -> None:
        """Send every message; ends when the broker has them all."""
        async with (
            ServiceBusClient.from_connection_string(self._connection) as client,
            asyncio.TaskGroup() as sending,
        ):
            for poison in self._plan.poison:
                sending.create_task(self._send(client, poison))

    async def _send(self, client: ServiceBusClient, poison: Poison) -> None:
        await asyncio.sleep(poison.at)
        while poison.id in self._waiting:
            try:
                async with client.get_queue_sender(_SUBMISSIONS) as sender:
                    await sender.send_messages(ServiceBusMessage(poison.body, message_id=poison.id))
            except AzureError:
                await asyncio.sleep(_POISON_PAUSE)
            else:
                self._waiting.remove(poison.id)
                self._fault_counts.add(InjectedFault.POISON_MESSAGE)
