"""Peeking at queues of a broker: the figures are right, and no message is removed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from functions.bus import queue_depths
from functions.bus.queue_depths import PeekedLine, PeekedQueues
from functions.pattern.intake import Line
from functions.pattern.ports import Pile, QueueDepth
from servicebus_local.config import queues_named
from servicebus_local.testing import running_broker

pytestmark = pytest.mark.process

#: Seconds, more than a busy machine needs for anything here.
_PATIENCE = 60

_NOTHING = Pile(count=0, more=False, oldest_at=None)


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServiceBusClient]:
    """Run a broker, and connect to it as the application does; no look at it is given up."""
    for seconds in ("_LOOK_SECONDS", "_LINE_SECONDS"):
        monkeypatch.setattr(queue_depths, seconds, _PATIENCE)
    with running_broker(queues_named(["orders", "solo"])) as broker:
        async with ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0) as client:
            yield client


async def _put(client: ServiceBusClient, queue: str, count: int) -> None:
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages([ServiceBusMessage(str(number)) for number in range(count)])


async def test_messages_are_counted_and_the_age_of_the_oldest_is_given(client: ServiceBusClient) -> None:
    """Dead letters separately; a scheduled message is not counted; nothing is removed."""
    await _put(client, "orders", 3)
    async with (
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        await sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        [first] = await receiver.receive_messages(1, _PATIENCE)
        await receiver.dead_letter_message(first, reason="bad")
    queues = PeekedQueues(lambda: client, ["orders", "solo"])
    for _ in range(2):
        orders, solo = await queues.depths()
        assert orders.waiting is not None
        assert orders.dead is not None
        assert (orders.waiting.count, orders.waiting.scheduled, orders.waiting.more) == (2, 1, False)
        assert orders.waiting.oldest_at is not None
        assert timedelta(0) <= datetime.now(UTC) - orders.waiting.oldest_at < timedelta(minutes=1)
        assert orders.dead.count == 1
        assert solo == QueueDepth("solo", _NOTHING, _NOTHING)


async def test_long_queue_is_not_counted_to_its_end(client: ServiceBusClient) -> None:
    """The result says that there are more."""
    await _put(client, "solo", 101)
    [solo] = await PeekedQueues(lambda: client, ["solo"]).depths()
    assert solo.waiting is not None
    assert (solo.waiting.count, solo.waiting.more) == (100, True)


async def test_long_line_is_measured_by_few_peeks(client: ServiceBusClient) -> None:
    """As nearly as it has to be, as often as one looks; nothing is removed, and a short line has no age."""
    line = PeekedLine(lambda: client, "solo")
    assert await line.look() == Line(0, None)
    await _put(client, "solo", 5)
    assert await line.look() == Line(1, None)
    await _put(client, "solo", 995)
    for _ in range(2):
        measured = await line.look()
        assert 850 <= measured.count <= 1_000
        assert measured.since is not None
        assert timedelta(0) <= datetime.now(UTC) - measured.since < timedelta(minutes=1)


async def test_queue_that_cannot_be_read_hides_no_other(
    client: ServiceBusClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the others are still read."""
    missing, solo = await PeekedQueues(lambda: client, ["missing", "solo"]).depths()
    assert missing == QueueDepth("missing", None, None)
    assert solo == QueueDepth("solo", _NOTHING, _NOTHING)
    ours = [each.getMessage() for each in caplog.records if each.name == "functions.bus.queue_depths"]
    assert len(ours) == 2
    assert ours[0].startswith("queue missing can't be looked at: ")
