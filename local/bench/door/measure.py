"""The phases of the door's measurement, on a platform whose `submission` function does not run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from azure.servicebus.aio import ServiceBusClient

from functions.pattern.messages import SUBMISSIONS_QUEUE, SubmissionMessage
from functions.pattern.submission_groups import orders_in
from local.bench.door.alone import ApplicationAlone
from local.bench.door.hostile import HOSTILE
from local.bench.door.requests import BATCH_SIZE, DoorAnswers, Send, Sent, batches, over, puts, send_all
from local.bench.processes import usage_of
from local.bench.progress import Phases
from local.bench.workloads import Workload
from local.callers.client import SAMPLE_ORDER
from local.platform import PartName, Platform

#: The door is measured alone: what it puts on its queue stays there, as while no other instance is up.
DOOR = Workload(
    "the door",
    Path(__file__).with_name("function_app.py"),
    "orders",
    SAMPLE_ORDER,
    {
        "AzureWebJobs_submission_Disabled": "true",
        "RATE_PER_MINUTE": "1000000000",
        "REQUESTS_IN_FLIGHT": "1000",
    },
)
_PUTS, _PUTS_AT_ONCE = 1_000, 8
_BATCHES_AT_ONCE = 4
SPIKE_AT_ONCE = 100
#: Fewer: each id is looked up.
_PART_WITH_IDS = 10
_BARE, _ORDERS = "/api/bare", "/api/orders"
_HEALTHY = 40
#: Seconds between two looks at the health.
_LOOK_EVERY = 0.03
_PEEKED = 250


@dataclass(frozen=True, slots=True)
class Alone:
    """The measurements of the application without the platform, which keeps nothing then."""

    puts: DoorAnswers
    batches: DoorAnswers
    spike: DoorAnswers


@dataclass(frozen=True, slots=True)
class DoorMeasured:
    """The measurements; `bare` is a FastAPI route on the same host, which keeps nothing.

    `lost` counts orders that were accepted and are not on the queue. `health` has the seconds that
    `GET /api/health` takes at most while batches of each kind are refused, `quiet_health` while no such are.
    """

    bare: DoorAnswers
    puts: DoorAnswers
    batches: DoorAnswers
    named: DoorAnswers
    spike: DoorAnswers
    alone: Alone
    lost: int
    cpu_seconds: Mapping[str, float]
    quiet_health: float
    health: Mapping[str, float]


async def measure_door(
    platform: Platform, session: aiohttp.ClientSession, orders: int, phases: Phases
) -> DoorMeasured:
    """Measure; `orders` are those of the spike, and of the batches."""
    send, of_batches = over(session), _BATCHES_AT_ONCE
    phases.begin("door, single orders", _PUTS)
    await send_all(send, [*puts(100, _BARE), *puts(100, _ORDERS)], at_once=_PUTS_AT_ONCE)  # to warm up
    bare = await send_all(send, puts(_PUTS, _BARE), at_once=_PUTS_AT_ONCE)
    single = await send_all(send, puts(_PUTS, _ORDERS), at_once=_PUTS_AT_ONCE)
    phases.begin("door, orders in batches", orders)
    warm = await send_all(send, batches(4 * BATCH_SIZE, with_ids=False), at_once=of_batches)
    parts = {str(part): platform.pid(part) for part in (PartName.BROKER, PartName.HOST)}
    async with usage_of(parts) as usage:
        batched = await send_all(send, batches(orders, with_ids=False), at_once=of_batches)
    some = max(BATCH_SIZE, orders // _PART_WITH_IDS)
    named = await send_all(send, batches(some, with_ids=True), at_once=of_batches)
    phases.begin("door, a spike", orders)
    spike = await send_all(send, batches(orders, with_ids=False), at_once=SPIKE_AT_ONCE)
    kept = await _on_the_queue(platform.addresses.service_bus_connection)
    accepted = {task for each in (single, warm, batched, named, spike) for task in each.accepted}
    phases.begin("door, hostile batches", len(HOSTILE))
    quiet = await _slowest_health(session, b"{}")
    health = {name: await _slowest_health(session, body) for name, body in HOSTILE.items()}
    return DoorMeasured(
        bare=bare,
        puts=single,
        batches=batched,
        named=named,
        spike=spike,
        alone=await _alone(orders, phases),
        lost=len(accepted - kept),
        cpu_seconds=usage.cpu_seconds,
        quiet_health=quiet,
        health=health,
    )


async def _alone(orders: int, phases: Phases) -> Alone:
    phases.begin("door, the application alone", orders)
    send: Send = ApplicationAlone().send
    await send_all(send, puts(100, _ORDERS), at_once=1)  # to warm up
    return Alone(
        puts=await send_all(send, puts(_PUTS, _ORDERS), at_once=1),
        batches=await send_all(send, batches(orders, with_ids=False), at_once=1),
        spike=await send_all(send, batches(orders, with_ids=False), at_once=SPIKE_AT_ONCE),
    )


async def _slowest_health(session: aiohttp.ClientSession, body: bytes) -> float:
    """Ask for health while batches with this body are refused one after another; give the longest wait."""
    refused = Sent("POST", "/api/orders/batch", body, lambda _: ([], 0))
    ends = asyncio.Event()

    async def refuse() -> None:
        while not ends.is_set():
            await send_all(over(session), [refused], at_once=1)

    async def ask() -> float:
        start = time.perf_counter()
        async with session.get("/api/health", raise_for_status=True) as answer:
            await answer.read()
        return time.perf_counter() - start

    refusing = asyncio.create_task(refuse())
    waits = list[float]()
    for _ in range(_HEALTHY):
        waits.append(await ask())
        await asyncio.sleep(_LOOK_EVERY)
    ends.set()
    await refusing
    return max(waits)


async def _on_the_queue(connection: str) -> set[str]:
    """Give the ids of the orders that wait on the queue."""
    found = set[str]()
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver(SUBMISSIONS_QUEUE) as receiver,
    ):
        following = 1
        while some := await receiver.peek_messages(_PEEKED, sequence_number=following):
            following = (some[-1].sequence_number or 0) + 1
            for each in some:
                found.update(_ids_in(b"".join(each.body)))
    return found


def _ids_in(body: bytes) -> Sequence[str]:
    orders = orders_in(body)
    bodies = [body] if orders is None else [order.body for order in orders]
    return [SubmissionMessage.model_validate_json(each).task_id for each in bodies]
