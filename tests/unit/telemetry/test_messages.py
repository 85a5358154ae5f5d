"""A trace goes along with a message, and on where the message is taken."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from azure.servicebus.aio import ServiceBusClient

from functions.bus.messages import QueuedMessages
from functions.bus.sender import Outgoing, QueueSender
from functions.messages.reading import each_order
from functions.pattern.identity import TaskId
from functions.pattern.request_figures import BusFigures
from functions.telemetry.spans import SubmissionSpans, message_span, span
from tests.fakes.clock import FakeClock
from tests.fakes.messages import received
from tests.fakes.workflows import submission
from tests.unit.bus.test_sender import BusClient
from tests.unit.telemetry.conftest import Spans, parent_of, traceparent_of


@pytest.fixture
def client() -> BusClient:
    """Make a client that has sent nothing."""
    return BusClient()


def _sender(client: BusClient) -> QueueSender:
    return QueueSender(cast("ServiceBusClient", client), "submissions", BusFigures())


def _properties(client: BusClient) -> list[Any]:
    return [message.application_properties for batch in client.batches for message in batch]


async def test_each_message_of_a_batch_keeps_its_own_trace(spans: Spans, client: BusClient) -> None:
    """Though one of them causes the batch to be sent."""
    sender = _sender(client)

    async def submit(name: str) -> None:
        with span(name, {}):
            await sender.send(Outgoing(message_id=name, body=b"{}", subject="orders"))

    await asyncio.gather(*(submit(f"m-{number}") for number in range(3)))
    expected = [{"traceparent": traceparent_of(spans.one(f"m-{number}"))} for number in range(3)]
    assert _properties(client) == expected
    assert len(client.batches) < 3


async def test_orders_in_one_message_keep_their_own_traces(spans: Spans, client: BusClient) -> None:
    """Each goes on with the trace in which it was submitted."""
    submissions = SubmissionSpans(QueuedMessages(lambda _: _sender(client), FakeClock()))
    orders = [submission(task=TaskId(f"o-{number}")) for number in range(2)]
    assert await submissions.submit_all(orders) == [None, None]
    [[sent]] = client.batches
    carried: Any = sent.application_properties
    taken = each_order(received(b"".join(sent.body), sent.message_id, properties=carried))
    submitted = [traceparent_of(span) for span in spans.all() if span.name == "submit"]
    assert [dict(each.application_properties or {}) for each in taken] == [
        {"traceparent": each} for each in submitted
    ]


async def test_message_without_a_trace_has_no_properties(client: BusClient) -> None:
    """As when nothing is exported."""
    await _sender(client).send(Outgoing(message_id="m-1", body=b"{}", subject="orders"))
    assert _properties(client) == [None]


def test_receiver_goes_on_with_the_senders_trace(spans: Spans) -> None:
    """Its span tells the queue; it lies below the sender's."""
    with span("submit", {}):
        pass
    sent = traceparent_of(spans.one("submit"))
    with message_span("submissions", {"traceparent": sent, "other": b"s3cret"}):
        pass
    received = spans.one("process submissions")
    assert parent_of(received) == sent[36:52]
    assert dict(received.attributes or {}) == {"messaging.destination.name": "submissions"}


@pytest.mark.parametrize("properties", [None, {}, {"traceparent": b"00-1"}, {"traceparent": 7}])
def test_strange_message_begins_a_trace(spans: Spans, properties: dict[str, Any] | None) -> None:
    """Whoever sent it, and whatever it carries."""
    with message_span("agent-replies", properties):
        pass
    assert spans.one("process agent-replies").parent is None
