"""An order is one trace, from the request of its caller to the handling of its message."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from functions.messaging.message_format import QueueMessage, each_order
from functions.messaging.senders import HubSender
from functions.telemetry.spans import span
from tests.unit.messaging.test_message_format import submission
from tests.unit.messaging.test_senders import Bus, Producer
from tests.unit.telemetry.conftest import Spans, links_of, spans, traceparent_of

__all__ = ["spans"]


def received(bus: Bus) -> list[QueueMessage]:
    """Return the orders of the messages that were sent."""
    messages = [
        QueueMessage.received(
            cast("str", each.message_id), b"".join(each.body), cast("Any", each.application_properties)
        )
        for _, each in bus.client.sent
    ]
    return [order for message in messages for order in each_order(message)]


@pytest.mark.parametrize("is_hub", [False, True])
async def test_orders_of_a_batch_have_traces_of_their_own(spans: Spans, *, is_hub: bool) -> None:
    """Each is linked to the request."""
    bus, producer = Bus(), Producer()
    sender = HubSender(lambda: cast("Any", producer), Counter[str]()) if is_hub else bus.sender
    with span("POST", {}):
        await sender.submit([submission("a"), submission("b")])
    submitted = [each for each in spans.all() if each.name == "submit"]
    events = [each for batch in producer.batches for each in batch]
    sent: list[Any] = [each.properties for each in (events if is_hub else received(bus))]
    assert sent == [{"traceparent": traceparent_of(each)} for each in submitted]
    request = traceparent_of(spans.one("POST"))
    assert [links_of(each) for each in submitted] == [[request], [request]]
    assert len({traceparent_of(each).split("-")[1] for each in (*submitted, spans.one("POST"))}) == 3
