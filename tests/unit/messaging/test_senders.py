"""Messages that wait together are sent as one batch, each to its queue and known to duplicate detection."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusConnectionError,
)

from functions.core.record import Direction, Message, MessageKind
from functions.messaging.agent_messages import AgentRequest, ReplyOutcome, reply_to
from functions.messaging.message_format import QueueMessage, each_order
from functions.messaging.senders import MessageSender, SendError
from functions.messaging.task_messages import ReleaseRequest, RunRequest, WakeRequest
from functions.telemetry.spans import span
from tests.fakes.storage_process import START
from tests.unit.messaging.test_message_format import TRACE, about, submission
from tests.unit.telemetry.conftest import Spans, links_of, spans, traceparent_of

__all__ = ["spans"]


class BusClient:
    """A client, and the batches that its senders sent by queue."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed = 0
        self.batches: list[tuple[str, list[ServiceBusMessage]]] = []
        self.failures: dict[str, BaseException] = {}
        self.hangs = False

    def get_queue_sender(self, queue: str) -> QueueClient:
        """Open a sender."""
        self.opened.append(queue)
        return QueueClient(self, queue)

    @property
    def sent(self) -> list[tuple[str, ServiceBusMessage]]:
        """Return every message with its queue."""
        return [(queue, message) for queue, batch in self.batches for message in batch]


class QueueClient:
    """A sender of one queue."""

    def __init__(self, client: BusClient, queue: str) -> None:
        self._client, self._queue = client, queue

    async def send_messages(
        self, messages: ServiceBusMessage | Sequence[ServiceBusMessage], **_options: object
    ) -> None:
        """Send a batch, or one message."""
        if self._client.hangs:
            await asyncio.Event().wait()
        if self._queue in self._client.failures:
            raise self._client.failures[self._queue]
        batch = [messages] if isinstance(messages, ServiceBusMessage) else list(messages)
        for each in batch:
            encode_payload(bytearray(), PyamqpTransport.to_outgoing_amqp_message(each.raw_amqp_message))
        self._client.batches.append((self._queue, batch))
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Close the connection."""
        self._client.closed += 1


class Bus:
    """A message sender over a client."""

    def __init__(self) -> None:
        self.client, self.figures = BusClient(), Counter[str]()
        client = cast("Any", self.client)
        self.sender = MessageSender(
            lambda: client,
            may_send=lambda _queue: True,
            now=lambda: START,
            figures=self.figures,
        )

    async def put(self, name: str, size: int = 2, queue: str = "q", **properties: str | int) -> None:
        """Send a message."""
        message = QueueMessage(message_id=name, body=b"x" * size, properties=properties)
        await self.sender.put(queue, message)


@pytest.fixture
def bus() -> Bus:
    """Return a sender that has sent nothing."""
    return Bus()


def request(seconds: float) -> AgentRequest:
    """Return a request with a deadline."""
    return AgentRequest(
        schema_version=1,
        task_id="t-1",
        step="pay",
        direction=Direction.DO,
        epoch=1,
        start_id="s" * 16,
        effect_key="k",
        complete_by=START + timedelta(seconds=seconds),
        idempotent=True,
        request={},
    )


async def test_each_message_goes_to_its_queue(bus: Bus) -> None:
    """Scheduled for its time."""
    later = START + timedelta(hours=1)
    alert = Message(kind=MessageKind.ALERT, id="a", task="", at=START, body={"cause": "x"})
    wake = WakeRequest(task="t", at=START, not_before=later)
    for message in (
        RunRequest(task="t", epoch=1, run=1),
        wake,
        ReleaseRequest(gate="g", link=1, at=later),
        alert,
    ):
        await bus.sender.send(message)
    await bus.sender.send(about(MessageKind.RECEIVED))
    await bus.sender.send_request("payment", request(30))
    await bus.sender.send_reply(reply_to(request(1), ReplyOutcome.DONE))
    queues = ["scheduler-requests"] * 3 + [
        "operator-alerts",
        "notices-demo",
        "agent-payment-requests",
        "agent-replies",
    ]
    assert [queue for queue, _ in bus.client.sent] == queues
    times = [message.scheduled_enqueue_time_utc for _, message in bus.client.sent]
    assert times == [None, later, later, None, None, None, None]
    assert bus.client.sent[0][1].message_id == "t.1.1"
    assert {message.content_type for _, message in bus.client.sent} == {"application/json"}


_LONGEST = 2**32 // 1000  # milliseconds are sent in 32 bits


@pytest.mark.parametrize(
    ("seconds", "lives"), [(30, 30), (29.2, 30), (0.3, 1), (-5, 1), (_LONGEST, _LONGEST)]
)
async def test_request_expires_at_its_deadline(bus: Bus, seconds: float, lives: float) -> None:
    """In whole seconds, and never without end."""
    await bus.sender.send_request("payment", request(seconds))
    [(_, message)] = bus.client.sent
    assert message.time_to_live == timedelta(seconds=lives)
    assert message.correlation_id == "t-1"
    await bus.sender.send_request("payment", request(_LONGEST + 1))
    assert bus.client.sent[1][1].time_to_live is None  # that of the queue is long enough


async def test_messages_that_wait_together_leave_together(bus: Bus) -> None:
    """Over one connection, at most as many bytes as the queue accepts, properties and labels included."""
    await asyncio.gather(*(bus.put(f"m-{n}") for n in range(20)))
    assert [len(batch) for _, batch in bus.client.batches] == [20]
    await asyncio.gather(*(bus.put(f"n-{n}", 48 * 1024) for n in range(9)))
    await asyncio.gather(*(bus.put(f"o-{n}", note="x" * 30_000) for n in range(12)))
    labelled = QueueMessage(message_id="m", body=b"{}", subject="s" * 32_000)
    await asyncio.gather(*(bus.sender.put("q", labelled) for _ in range(12)))
    assert [len(batch) for _, batch in bus.client.batches[1:]] == [4, 4, 1, 6, 6, 6, 6]
    assert (bus.client.opened, bus.figures["messages"]) == (["q"], 53)


async def test_messages_during_a_send_leave_with_the_next(bus: Bus) -> None:
    """A message that is alone is sent immediately, and one whose caller has left is not sent."""
    first = asyncio.create_task(bus.put("first"))
    while not bus.client.batches:
        await asyncio.sleep(0)
    others = [asyncio.create_task(bus.put(name)) for name in "abc"]
    await asyncio.sleep(0)
    others[1].cancel()
    await asyncio.wait([first, *others])
    assert [[str(each.message_id) for each in batch] for _, batch in bus.client.batches] == [
        ["first"],
        ["a", "c"],
    ]
    assert [each.cancelled() for each in others] == [False, True, False]


@pytest.mark.parametrize(
    "error",
    [ServiceBusConnectionError(message="gone"), MessagingEntityNotFoundError(), asyncio.CancelledError()],
)
async def test_fault_of_one_queue_is_of_its_messages_only(bus: Bus, error: BaseException) -> None:
    """The errors and the cancellations of the client stay inside, and nothing is counted as sent."""
    bus.client.failures["bad"] = error
    puts = (bus.put("1", 150_000, "bad"), bus.put("2"), bus.put("3", 150_000, "bad"))
    results = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(each) for each in results] == [SendError, type(None), SendError]
    assert all(type(error).__name__ in str(each) for each in results[::2])
    assert bus.figures["messages"] == 1
    bus.client.failures.clear()
    await bus.put("4", queue="bad")


async def test_connection_that_loses_everything_is_replaced(bus: Bus) -> None:
    """The client would keep it."""
    bus.client.failures["q"] = OperationTimeoutError()
    with pytest.raises(SendError):
        await bus.put("1")
    bus.client.failures.clear()
    await bus.put("2")
    assert (bus.client.opened, bus.client.closed) == (["q", "q"], 1)


async def test_send_ends_in_time(bus: Bus) -> None:
    """The caller may be a run."""
    bus.client.hangs = True
    with pytest.raises(SendError, match="TimeoutError"):
        await bus.put("1")
    assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.1)


async def test_message_keeps_its_properties_and_its_trace(bus: Bus) -> None:
    """An integer of more than 32 bits, which the client cannot encode, as a text."""
    message = QueueMessage(
        message_id="m",
        body=b"{}",
        subject="s",
        correlation_id="c",
        properties={"traceparent": TRACE, "n": 2**31},
    )
    await asyncio.gather(bus.sender.put("q", message), bus.put("other"))
    [(_, sent), (_, other)] = bus.client.sent
    assert (sent.message_id, sent.subject, sent.correlation_id) == ("m", "s", "c")
    assert sent.application_properties == {"traceparent": TRACE, "n": str(2**31)}
    assert not other.application_properties


async def test_orders_of_a_request_are_few_messages(bus: Bus) -> None:
    """The error of a message is that of each of its orders."""
    orders = [submission(f"t-{number}") for number in range(60)]
    assert await bus.sender.submit(orders) == [None] * 60
    assert bus.figures["messages"] == 3
    await bus.sender.submit(orders[:1])
    assert bus.client.sent[-1][1].message_id == orders[0].id
    bus.client.failures["submissions"] = ServiceBusConnectionError(message="gone")
    assert [type(each) for each in await bus.sender.submit(orders[:30])] == [SendError] * 30


def received(bus: Bus) -> list[QueueMessage]:
    """Return the orders of the messages that were sent."""
    messages = [
        QueueMessage.received(
            cast("str", each.message_id), b"".join(each.body), cast("Any", each.application_properties)
        )
        for _, each in bus.client.sent
    ]
    return [order for message in messages for order in each_order(message)]


async def test_orders_of_a_batch_have_traces_of_their_own(spans: Spans) -> None:
    """Each is linked to the request."""
    bus = Bus()
    with span("POST", {}):
        await bus.sender.submit([submission("a"), submission("b")])
    submitted = [each for each in spans.all() if each.name == "submit"]
    assert [each.properties for each in received(bus)] == [
        {"traceparent": traceparent_of(each)} for each in submitted
    ]
    request = traceparent_of(spans.one("POST"))
    assert [links_of(each) for each in submitted] == [[request], [request]]
    assert len({traceparent_of(each).split("-")[1] for each in (*submitted, spans.one("POST"))}) == 3
