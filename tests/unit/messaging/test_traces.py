"""An order is one trace, from the request of its caller to the handling of its message."""

from __future__ import annotations

from typing import Any, cast

from functions.messaging.message_format import QueueMessage, each_order
from functions.telemetry.spans import span
from tests.unit.messaging.test_message_format import submission
from tests.unit.messaging.test_senders import Bus
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
