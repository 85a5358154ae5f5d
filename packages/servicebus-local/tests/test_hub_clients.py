"""The unmodified azure-eventhub client, synchronous and asynchronous, with a hub of 32 partitions."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient, PartitionContext
from azure.eventhub.aio import EventHubConsumerClient as AsyncConsumer
from azure.eventhub.aio import EventHubProducerClient as AsyncProducer
from azure.eventhub.amqp import AmqpAnnotatedMessage
from azure.eventhub.exceptions import ConnectError

from servicebus_local.config import BrokerConfig
from servicebus_local.hubs.partition_keys import partition_of
from servicebus_local.hubs.settings import HubSettings
from servicebus_local.testing import RunningBroker, connection_string, running_broker
from tests.broker_process import BrokerProcess, command

pytestmark = [
    pytest.mark.process,
    # The client does not close the sockets of cut or refused connections.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

_HUB = "orders"
_WAIT = 60


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what the client left open here, not in another test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """Run a broker with the hub for the module."""
    hub = HubSettings(32, consumer_groups=("ingestion",))
    with running_broker(BrokerConfig({}, hubs={_HUB: hub, "small": HubSettings(2)})) as running:
        yield running


@pytest.fixture(scope="module")
def producer(broker: RunningBroker) -> Iterator[EventHubProducerClient]:
    """Connect a producer for the module."""
    with EventHubProducerClient.from_connection_string(
        broker.connection_string, eventhub_name=_HUB, retry_total=0
    ) as client:
        yield client


def _receive(broker: RunningBroker, partition: str, count: int, **options: object) -> list[EventData]:
    """Return events of a partition, from its start unless the options say otherwise."""
    client = EventHubConsumerClient.from_connection_string(
        broker.connection_string, "ingestion", eventhub_name=_HUB, retry_total=0
    )
    found: list[EventData] = []
    complete = threading.Event()

    def on_event(_context: PartitionContext, event: EventData) -> None:
        found.append(event)
        if len(found) == count:
            complete.set()

    settings = {"partition_id": partition, "starting_position": "-1"} | options
    reading = threading.Thread(target=client.receive, args=(on_event,), kwargs=settings)
    reading.start()
    done = complete.wait(_WAIT)
    client.close()
    reading.join()
    assert done, f"{len(found)} of {count} events"
    return found


def test_events_with_a_key_are_where_the_service_puts_them(
    broker: RunningBroker, producer: EventHubProducerClient
) -> None:
    """All of a batch in one partition, in their order, with key and properties."""
    event = EventData(b"first")
    event.properties = {"traceparent": "00-1", "number": 7}
    event.correlation_id = "mine"
    producer.send_batch([event, EventData(b"second")], partition_key="FWfAT")
    first, second = _receive(broker, str(partition_of("FWfAT", 32)), 2)
    assert [first.body_as_str(), second.body_as_str()] == ["first", "second"]
    assert first.partition_key == b"FWfAT"
    assert first.properties == {b"traceparent": b"00-1", b"number": 7}
    assert (first.correlation_id, first.message_id) == ("mine", None)
    assert (second.sequence_number or 0) - (first.sequence_number or 0) == 1


def test_any_body_arrives_as_it_was_sent(broker: RunningBroker, producer: EventHubProducerClient) -> None:
    """Other clients send values and lists; delivery annotations and a footer arrive, too."""
    sent = AmqpAnnotatedMessage(value_body={"a": [1, None]}, footer={"crc": 1}, delivery_annotations={"x": 2})
    producer.send_batch([sent], partition_id="3")
    (event,) = _receive(broker, "3", 1)
    message = event.raw_amqp_message
    assert message.body == {b"a": [1, None]}
    assert (message.footer, message.delivery_annotations) == ({b"crc": 1}, {b"x": 2})


def test_properties_of_hub_and_partition(broker: RunningBroker, producer: EventHubProducerClient) -> None:
    """What a client asks `$management`; a partition that never had an event says so."""
    assert producer.get_eventhub_properties()["partition_ids"] == [str(number) for number in range(32)]
    empty = producer.get_partition_properties("9")
    assert (empty["beginning_sequence_number"], empty["last_enqueued_sequence_number"]) == (0, -1)
    assert (empty["last_enqueued_offset"], empty["is_empty"]) == ("-1", True)
    assert empty["last_enqueued_time_utc"].year == 1
    producer.send_event(EventData(b"a"), partition_id="9")
    (event,) = _receive(broker, "9", 1)
    filled = producer.get_partition_properties("9")
    assert filled["last_enqueued_offset"] == event.offset
    assert (filled["last_enqueued_sequence_number"], filled["is_empty"]) == (0, False)
    assert filled["last_enqueued_time_utc"] == event.enqueued_time


def test_a_batch_holds_a_megabyte(broker: RunningBroker, producer: EventHubProducerClient) -> None:
    """The client takes its size from the link; many small events are read in their order."""
    batch = producer.create_batch(partition_id="6")
    assert batch.max_size_in_bytes == 1 << 20
    for number in range(2000):
        batch.add(EventData(str(number) * 50))
    producer.send_batch(batch)
    bodies = [event.body_as_str() for event in _receive(broker, "6", 2000, prefetch=300)]
    assert bodies == [str(number) * 50 for number in range(2000)]


def test_unknown_hub_and_group(broker: RunningBroker) -> None:
    """The client says that it is not there, and does not wait."""
    client = EventHubProducerClient.from_connection_string(
        broker.connection_string, eventhub_name="lost", retry_total=0
    )
    with client, pytest.raises(ConnectError):
        client.send_event(EventData(b"a"))


async def test_the_processor_of_the_asynchronous_client_reads_all_partitions(broker: RunningBroker) -> None:
    """Without a key, events go to the partitions in turn; two clients of one group share them by epoch."""
    found: list[str] = []
    complete = asyncio.Event()

    async def on_event(_context: object, event: EventData | None) -> None:
        assert event is not None
        found.append(event.body_as_str())
        if len(found) == 4:
            complete.set()

    text = broker.connection_string
    async with (
        AsyncProducer.from_connection_string(text, eventhub_name="small") as producer,
        AsyncConsumer.from_connection_string(text, "$Default", eventhub_name="small") as consumer,
    ):
        for number in range(4):
            await producer.send_batch([EventData(str(number))])
        reading = asyncio.create_task(consumer.receive(on_event, starting_position="-1"))
        await asyncio.wait_for(complete.wait(), _WAIT)
        reading.cancel()  # its own way to close takes ten seconds and more
        await asyncio.wait([reading])
    assert sorted(found) == ["0", "1", "2", "3"]
    hub = next(hub for hub in broker.admin("GET", "/hubs")[1] if hub["name"] == "small")
    assert [partition["last_sequence_number"] for partition in hub["partitions"]] == [1, 1]


def test_a_producer_resumes_after_the_broker_was_killed(tmp_path: Path) -> None:
    """It reconnects automatically; the events that were accepted earlier are stored."""
    hubs, queues = tmp_path / "hubs.json", tmp_path / "queues.json"
    queues.write_text(json.dumps({"queues": []}))
    hubs.write_text(json.dumps({"hubs": [{"name": _HUB, "partitionCount": 1}]}))
    with BrokerProcess([*command(queues, tmp_path / "data"), "--hubs", str(hubs)]) as broker:
        port, admin_port = broker.port, broker.admin_port
        producer = EventHubProducerClient.from_connection_string(
            connection_string(port), eventhub_name=_HUB, retry_backoff_factor=0.1
        )
        producer.send_event(EventData(b"before"))
        broker.kill()
    words = [*command(queues, tmp_path / "data", port, admin_port), "--hubs", str(hubs)]
    with BrokerProcess(words), producer:
        producer.send_event(EventData(b"after"))
        assert producer.get_partition_properties("0")["last_enqueued_sequence_number"] == 1
