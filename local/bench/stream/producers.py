"""Sends orders as the API does, to the queue or to the hub, until each is accepted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from functions.bus.connect import connect_bus
from functions.bus.messages import QueuedMessages
from functions.bus.sender import QueueSender
from functions.connections import Connection
from functions.hubs.connect import connect_hub
from functions.hubs.sender import HubSubmissions
from functions.machine import SystemClock
from functions.pattern.identity import TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.request_figures import BusFigures
from local.bench.stream.workflow import LETTER, LETTERS

HUB = "order-events"
#: As many orders as a batch of the API has.
_TOGETHER = 500
_AT_ONCE = 4
#: Seconds until what was refused is sent again.
_AGAIN_AFTER = 0.5


class SubmissionWay(Protocol):
    """The queue or the hub: what the API puts orders on."""

    async def submit(self, message: SubmissionMessage) -> None:
        """Submit an order. Raises `TransientError`."""

    async def submit_all(
        self, messages: Sequence[SubmissionMessage], traces: Sequence[str | None] = ()
    ) -> Sequence[BaseException | None]:
        """Submit orders, and give what went wrong with each."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Both ways into one application."""

    queue: SubmissionWay
    hub: SubmissionWay


@dataclass(slots=True)
class SentOrders:
    """What it took until all orders were accepted: seconds of each request, and how many were sent again."""

    orders: int = 0
    whole_seconds: float = 0
    seconds: list[float] = field(default_factory=list)
    again: int = 0

    @property
    def rate(self) -> float:
        """Orders accepted per second."""
        return self.orders / self.whole_seconds


@asynccontextmanager
async def both_ways(broker: str) -> AsyncIterator[Ways]:
    """Connect to the queue and the hub of a broker."""
    connection, figures = Connection(broker, None, None), BusFigures()
    hub, bus = connect_hub(connection, HUB), connect_bus(connection)()
    async with bus, hub():
        queued = QueuedMessages(lambda queue: QueueSender(bus, queue, figures), SystemClock())
        yield Ways(queued, HubSubmissions(hub, figures))


def letter(task: str) -> SubmissionMessage:
    """Make an order that is submitted now."""
    return SubmissionMessage(
        task_id=TaskId(task),
        workflow=LETTERS.name,
        payload=LETTER,
        submitter="bench",
        submitted_at=datetime.now(UTC),
    )


async def send_at_once(
    way: SubmissionWay, tasks: Sequence[str], show: Callable[[int], None] = lambda _: None
) -> SentOrders:
    """Send orders as fast as they are accepted, in batches; what is refused is sent again."""
    accepted, began = SentOrders(), time.perf_counter()
    batches = [tasks[first : first + _TOGETHER] for first in range(0, len(tasks), _TOGETHER)]
    left = iter(batches)

    async def send() -> None:
        for batch in left:
            await _send(way, [letter(task) for task in batch], accepted)
            show(accepted.orders)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(send())
    accepted.whole_seconds = time.perf_counter() - began
    return accepted


async def _send(way: SubmissionWay, messages: Sequence[SubmissionMessage], accepted: SentOrders) -> None:
    while messages:
        began = time.perf_counter()
        results = await way.submit_all(messages)
        accepted.seconds.append(time.perf_counter() - began)
        refused = [each for each, error in zip(messages, results, strict=True) if error is not None]
        accepted.orders += len(messages) - len(refused)
        accepted.again += len(refused)
        messages = refused
        if messages:
            await asyncio.sleep(_AGAIN_AFTER)


async def send_steadily(
    way: SubmissionWay, tasks: Sequence[str], per_second: float, show: Callable[[int], None] = lambda _: None
) -> SentOrders:
    """Send one order after the other at a rate, whatever becomes of those before."""
    accepted, began = SentOrders(), time.perf_counter()

    async def send(task: str) -> None:
        sent_at = time.perf_counter()
        await way.submit(letter(task))
        accepted.seconds.append(time.perf_counter() - sent_at)
        accepted.orders += 1
        show(accepted.orders)

    async with asyncio.TaskGroup() as group:
        for number, task in enumerate(tasks):
            await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            group.create_task(send(task))
    accepted.whole_seconds = time.perf_counter() - began
    return accepted
