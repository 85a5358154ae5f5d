"""Measure the API alone: single orders, batches and a spike, while the function `submission` is disabled."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp
from azure.servicebus.aio import ServiceBusClient

from functions.messaging.message_format import QueueMessage, SubmissionMessage, each_order
from functions.messaging.queue_names import SUBMISSIONS_QUEUE
from local.bench.probes import cpu_of
from local.bench.workloads import Workload
from local.callers.client import SAMPLE_ORDER
from local.platform import ROOT, PartName, Platform
from local.progress import Phases

BATCH_SIZE = 500
SPIKE_AT_ONCE = 100
_PUTS = 1_000
_BATCHES_AT_ONCE = 4
_JSON = {"Content-Type": "application/json"}
#: The orders stay on their queue, as in Azure while no other instance runs.
DOOR = Workload(
    "the door",
    ROOT / "function_app.py",
    "orders",
    SAMPLE_ORDER,
    "agent_replies",
    {
        "AzureWebJobs_submission_Disabled": "true",
        "REQUESTS_IN_FLIGHT": "1000",
    },
)
_ORDER = json.dumps(SAMPLE_ORDER, separators=(",", ":"))


@dataclass(slots=True)
class DoorAnswers:
    """The answers to many requests. `seconds` has the time of each request, `accepted` the orders' ids."""

    whole_seconds: float = 0
    seconds: list[float] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    refused: int = 0

    @property
    def rate(self) -> float:
        """Orders accepted per second."""
        return len(self.accepted) / self.whole_seconds


@dataclass(frozen=True, slots=True)
class DoorMeasured:
    """The measurements of the API. `lost` counts accepted orders that are not on the queue.

    The caller chooses the ids in `puts` and `named`, the application in `batches` and `spike`.
    `cpu_seconds` are those of `batches`, by part.
    """

    puts: DoorAnswers
    batches: DoorAnswers
    named: DoorAnswers
    spike: DoorAnswers
    lost: int
    cpu_seconds: Mapping[str, float]


type _Request = tuple[str, str, bytes]


class _Door:
    """Sends requests over a session, and shows the progress of each phase."""

    def __init__(self, session: aiohttp.ClientSession, phases: Phases) -> None:
        self._session = session
        self._phases = phases
        self.accepted = set[str]()

    async def measure(self, name: str, requests: Iterable[_Request], *, at_once: int) -> DoorAnswers:
        """Send requests, at most `at_once` at the same time."""
        sent = list(requests)
        phase, answers, left = self._phases.begin(f"door, {name}", len(sent)), DoorAnswers(), iter(sent)
        bodies: list[tuple[int, bytes]] = []

        async def send() -> None:
            for method, path, body in left:
                start = time.perf_counter()
                async with self._session.request(method, path, data=body, headers=_JSON) as answer:
                    bodies.append((answer.status, await answer.read()))
                answers.seconds.append(time.perf_counter() - start)
                phase.show(len(bodies))

        start = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(at_once)))
        answers.whole_seconds = time.perf_counter() - start
        for status, body in bodies:  # read afterwards: the caller shares the cores with the host
            if status >= HTTPStatus.BAD_REQUEST:
                answers.refused += 1
                continue
            answer = json.loads(body)
            results = answer.get("results", [{**answer, "status": status}])
            accepted = [each["id"] for each in results if each["status"] == HTTPStatus.ACCEPTED]
            answers.accepted += accepted
            answers.refused += len(results) - len(accepted)
        self.accepted.update(answers.accepted)
        return answers


async def measure_door(
    platform: Platform, session: aiohttp.ClientSession, orders: int, phases: Phases
) -> DoorMeasured:
    """Measure; `orders` is the number of the orders in batches, and of those in the spike."""
    door = _Door(session, phases)
    await door.measure("to warm up", _puts(100), at_once=8)
    puts = await door.measure("single orders", _puts(_PUTS), at_once=8)
    await door.measure("batches to warm up", _batches(4 * BATCH_SIZE), at_once=_BATCHES_AT_ONCE)
    parts = {str(part): platform.pid(part) for part in (PartName.BROKER, PartName.HOST)}
    with cpu_of(parts) as cpu_seconds:
        batches = await door.measure("batches", _batches(orders), at_once=_BATCHES_AT_ONCE)
    # Fewer, since the application looks up each id.
    some = _batches(max(BATCH_SIZE, orders // 10), with_ids=True)
    named = await door.measure("batches with ids", some, at_once=_BATCHES_AT_ONCE)
    spike = await door.measure("a spike", _batches(orders), at_once=SPIKE_AT_ONCE)
    kept = await _on_the_queue(platform.addresses.service_bus_connection)
    return DoorMeasured(puts, batches, named, spike, len(door.accepted - kept), cpu_seconds)


def _puts(count: int) -> Iterator[_Request]:
    body = _ORDER.encode()
    return (("PUT", f"/api/orders/{uuid.uuid4().hex}", body) for _ in range(count))


def _batches(orders: int, *, with_ids: bool = False) -> Iterator[_Request]:
    for first in range(0, orders, BATCH_SIZE):
        size = min(BATCH_SIZE, orders - first)
        written = (f'{{"id":"{uuid.uuid4().hex}",{_ORDER[1:]}' if with_ids else _ORDER for _ in range(size))
        yield "POST", "/api/orders/batch", f'{{"orders":[{",".join(written)}]}}'.encode()


async def _on_the_queue(connection: str) -> set[str]:
    """Return the ids of the orders on the queue."""
    found = set[str]()
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver(SUBMISSIONS_QUEUE) as receiver,
    ):
        following = 1
        while messages := await receiver.peek_messages(250, sequence_number=following):
            following = (messages[-1].sequence_number or 0) + 1
            for message in messages:
                orders = each_order(QueueMessage.received(message.message_id, b"".join(message.body)))
                found.update(SubmissionMessage.model_validate_json(each.body).task_id for each in orders)
    return found
