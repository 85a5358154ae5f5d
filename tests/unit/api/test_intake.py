"""The intake limit, its measurement by peeks into queues, and the health check."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import pytest
from azure.servicebus import ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusConnectionError

from functions.api import callers_application
from functions.api.callers_application import IntakeLimit
from functions.http.application import Cached
from functions.messaging import queue_depths
from functions.messaging.intake_measurement import IntakeBounds, IntakeMeasurement
from functions.messaging.queue_depths import Backlog, Depth, PeekedQueues, QueueDepth
from functions.storage.table_contract import CorruptRowError, StorageError, TransientStorageError
from tests.fakes.clock import START, FakeClock
from tests.unit.api.scene import ORDER, Api, problem
from tests.unit.storage.virtual import virtual

BOUNDS = IntakeBounds(timedelta(minutes=15), 1_000_000)
OLD = Backlog(9, 9_000, START - timedelta(minutes=42))


class Limited:
    """The application with a limit."""

    def __init__(self, backlog: Backlog | None) -> None:
        self.backlog, self.reads, self.fault = backlog, 0, cast("StorageError | None", None)
        self.clock = FakeClock()
        self.api = Api(intake=IntakeLimit(self._read, BOUNDS, self.clock.now).check)

    async def _read(self) -> IntakeMeasurement | None:
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        return None if self.backlog is None else IntakeMeasurement(START, self.backlog)

    async def read_once(self) -> None:
        """Send an order, which does not wait for the read."""
        assert (await self.api.client.post("/api/orders", ORDER)).status == 202
        await asyncio.sleep(0)
        self.api.submitted.clear()

    async def status(self) -> int:
        """Return the status of an order."""
        answer = await self.api.client.post("/api/orders", ORDER)
        return answer.status


@virtual
async def test_orders_are_rejected_until_the_backlog_is_smaller() -> None:
    """Single orders and batches, before the body is read. The answer has the time of the next try."""
    limited = Limited(OLD)
    await limited.read_once()
    for method, path, body in [
        ("POST", "/api/orders", ORDER),
        ("PUT", "/api/orders/order-1", ORDER),
        ("POST", "/api/orders/batch", {"orders": [ORDER]}),
        ("POST", "/api/orders", b"{" * 100_000),
    ]:
        answer = await limited.api.client.send(method, path, body)
        document = problem(answer, 429)
        assert document["type"] == "urn:problem-type:too-many-orders-wait"
        assert document["title"] == "Too Many Orders Wait"
        assert answer.headers["retry-after"] == "42"
    assert (limited.reads, limited.api.submitted) == (1, [])
    limited.backlog = None
    await asyncio.sleep(callers_application._READ_INTERVAL + 0.1)
    assert await limited.status() == 429  # this request starts the read
    await asyncio.sleep(0)
    assert (await limited.status(), limited.reads) == (202, 2)


@virtual
async def test_other_requests_are_not_limited() -> None:
    """They do not make the backlog larger."""
    limited = Limited(OLD)
    await limited.read_once()
    client = limited.api.client
    assert (await client.get("/api/orders/order-1")).status == 404
    assert (await client.delete("/api/orders/order-1")).status == 404
    assert (await client.post("/api/orders/order-1/events/approve", {})).status == 404
    assert (await client.get("/api/health")).status == 200


@virtual
async def test_limit_without_a_new_measurement_is_lifted() -> None:
    """The Supervisor may have stopped. A table that does not answer rejects no order."""
    limited = Limited(OLD)
    await limited.read_once()
    limited.fault = TransientStorageError("no answer")
    await asyncio.sleep(10)
    limited.clock.advance(179)
    assert [await limited.status() for _ in range(2)] == [429, 429]
    limited.clock.advance(2)
    assert await limited.status() == 202
    unknown = Limited(OLD)
    unknown.fault = CorruptRowError("intake", "no JSON")
    await unknown.read_once()
    assert await unknown.status() == 202


@pytest.mark.parametrize(
    ("backlog", "seconds"),
    [
        (Backlog(0, 0, None), 0),
        (Backlog(9, 9_000, START - timedelta(minutes=15)), 0),
        (Backlog(9, 9_000, START - timedelta(minutes=15, seconds=1)), 16),
        (Backlog(9, 9_000, START - timedelta(days=1)), 300),
        (Backlog(9, 9_000, START + timedelta(seconds=9)), 0),
        (Backlog(9, 1_000_000, START), 0),
        (Backlog(9, 3_000_000, START), 45),
    ],
)
def test_age_and_bytes_are_bounded(backlog: Backlog, seconds: int) -> None:
    """Callers wait the longer, the larger the backlog is, and at most five minutes."""
    assert IntakeMeasurement(START, backlog).retry_after(BOUNDS, START) == seconds


# Peeks


@dataclass(frozen=True, slots=True)
class Message:
    """A message, enqueued at the minute of its number."""

    sequence_number: int
    state: ServiceBusMessageState = ServiceBusMessageState.ACTIVE
    delivery_count: int | None = 0
    body: Sequence[bytes] = (b"x" * 300, b"x" * 300)

    @property
    def enqueued_time_utc(self) -> object:
        """Return the time."""
        return START + timedelta(minutes=self.sequence_number)


def scheduled(number: int) -> Message:
    """Return a scheduled message."""
    return Message(number, ServiceBusMessageState.SCHEDULED)


class Client:
    """A client with one queue, and its receivers. An answer has at most 60 messages."""

    def __init__(self, messages: Sequence[Message] = (), failure: BaseException | None = None) -> None:
        self.messages, self.failure, self.hangs = messages, failure, False
        self.opened = self.closed = self.peeks = 0

    def get_queue_receiver(
        self, queue: str, *, sub_queue: ServiceBusSubQueue | None, prefetch_count: int
    ) -> Receiver:
        """Open a receiver without credit."""
        assert (queue, prefetch_count) == ("orders", 0)
        self.opened += 1
        return Receiver(self, () if sub_queue else self.messages)

    @property
    def queues(self) -> PeekedQueues:
        """Return a view of the queue."""
        return PeekedQueues(lambda: cast("ServiceBusClient", self), ["orders"])


class Receiver:
    """A receiver of a queue, or of its empty dead-letter queue."""

    def __init__(self, client: Client, messages: Sequence[Message]) -> None:
        self._client, self._messages = client, messages

    async def peek_messages(self, most: int, *, sequence_number: int) -> list[Message]:
        """Return the messages from a number on."""
        self._client.peeks += 1
        if self._client.hangs and self._messages:
            await asyncio.Event().wait()
        if self._client.failure is not None:
            raise self._client.failure
        return [each for each in self._messages if each.sequence_number >= sequence_number][: min(most, 60)]

    async def close(self) -> None:
        """Close."""
        self._client.closed += 1


async def test_depths_are_counted_with_the_oldest_message() -> None:
    """Up to a hundred, scheduled messages separately. Receivers stay open."""
    client = Client([scheduled(1), Message(2), Message(3)])
    queues = client.queues
    expected = Depth(2, has_more=False, oldest_at=START + timedelta(minutes=2), scheduled=1)
    for _ in range(2):
        assert await queues.depths() == [
            QueueDepth("orders", expected, Depth(0, has_more=False, oldest_at=None))
        ]
    assert client.opened == 2
    for messages in (99, 150):  # a short answer is not the end of the queue
        [depth] = await Client([Message(number) for number in range(1, messages + 1)]).queues.depths()
        assert depth.waiting is not None
        assert (depth.waiting.count, depth.waiting.has_more) == (min(messages, 100), messages > 100)


@pytest.mark.parametrize(
    "failure",
    [ServiceBusConnectionError(message="gone"), ValueError("closed"), asyncio.CancelledError("client"), None],
)
async def test_queue_that_cannot_be_read_is_unknown(
    failure: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that does not answer. The next read opens another receiver."""
    for name in ("_DEPTH_SECONDS", "_BACKLOG_SECONDS"):
        monkeypatch.setattr(queue_depths, name, 0.05)
    client = Client([Message(1)], failure)
    client.hangs = failure is None
    queues = client.queues
    [depth] = await queues.depths()
    assert (depth.waiting, depth.dead is None) == (None, failure is not None)
    assert await queues.backlog("orders") is None
    assert client.closed == (3 if failure else 2)
    client.failure, client.hangs = None, False
    assert await queues.backlog("orders") == Backlog(1, 1_000, START + timedelta(minutes=1))


async def test_cancelled_read_ends() -> None:
    """The cancellation of the task itself is raised."""
    client = Client([Message(1)])
    client.hangs = True
    reading = asyncio.create_task(client.queues.backlog("orders"))
    while not client.peeks:
        await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


TRIED = [Message(number, delivery_count=2) for number in range(1, 5)]


@pytest.mark.parametrize(
    ("messages", "backlog"),
    [
        ([], Backlog(0, 0, None)),
        ([scheduled(1)], Backlog(0, 0, None)),
        ([scheduled(1), Message(2), Message(3)], Backlog(2, 2_000, START + timedelta(minutes=2))),
        ([*TRIED, Message(9)], Backlog(5, 5_000, START + timedelta(minutes=9))),
        (TRIED, Backlog(4, 4_000, START + timedelta(minutes=1))),
        ([*map(scheduled, range(1, 500)), Message(600)], Backlog(1, 1_000, START + timedelta(minutes=600))),
    ],
)
async def test_backlog_has_the_oldest_message_that_waits(messages: list[Message], backlog: Backlog) -> None:
    """Scheduled messages do not count, and a message that is tried again does not make the queue old."""
    assert await Client(messages).queues.backlog("orders") == backlog


@pytest.mark.parametrize("messages", [101, 1_000, 54_321])
@pytest.mark.parametrize("tried", [0, 250])
async def test_large_backlog_is_estimated_by_few_peeks(messages: int, tried: int) -> None:
    """The estimate is never too large here, and at most an eighth too small."""
    stuck = [Message(number * 1_000, delivery_count=3) for number in range(1, tried + 1)]
    client = Client([*stuck, *map(Message, range(300_000, 300_000 + messages))])
    backlog = await client.queues.backlog("orders")
    assert backlog is not None
    assert messages * 0.85 <= backlog.messages <= messages
    assert backlog.size == backlog.messages * 1_000
    assert backlog.oldest_at == START + timedelta(minutes=300_000)
    assert client.peeks <= 40
    numbers = [*range(1, 151), *range(2**48, 2**48 + 50)]  # those of another partition begin elsewhere
    backlog = await Client([Message(number) for number in numbers]).queues.backlog("orders")
    assert backlog is not None
    assert backlog.messages <= 150


# Health


@virtual
async def test_health_is_that_of_the_table() -> None:
    """503 with `Retry-After` if it does not answer; checked once a second for all, a fault, too."""
    api, fault = Api(), TransientStorageError("ServiceRequestError")
    for seconds, store_fault, is_healthy in (
        (0, fault, False),
        (0.9, None, False),
        (0.1, None, True),
        (0.9, fault, True),
    ):
        await asyncio.sleep(seconds)
        api.store_fault = store_fault
        answer = await api.client.get("/api/health")
        if is_healthy:
            assert (answer.status, answer.json) == (200, {"status": "healthy"})
        else:
            problem(answer, 503)
            assert answer.headers["retry-after"] == "5"


@virtual
async def test_requests_of_the_same_moment_share_a_read() -> None:
    """Also if one of them leaves. A read may last longer than its value; a cancelled one is repeated."""
    reads = 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        await asyncio.sleep(3)
        if reads == 2:
            raise asyncio.CancelledError
        return reads

    value = Cached(read, 1)
    waiting = [asyncio.create_task(value.get()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    assert await asyncio.gather(*waiting[1:]) == [1, 1]
    assert await value.get() == 1
    await asyncio.sleep(1)
    with pytest.raises(asyncio.CancelledError):
        await value.get()
    assert await value.get() == 3
