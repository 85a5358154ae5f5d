"""Service Bus triggers and outputs, with the real client and the broker of servicebus-local."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError

from tests.host.conftest import SETTINGS
from tests.host.processes import (
    APP,
    Part,
    broker_port,
    connection_string,
    print_queues,
    start_broker,
    start_host,
    traces,
    until,
)

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(find_spec("servicebus_local") is None, reason="needs the package servicebus-local"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(folder: Path) -> AsyncIterator[Part]:
    """Run the broker."""
    part = await start_broker(folder)
    yield part
    await part.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(folder: Path, broker: Part) -> AsyncIterator[Part]:
    """Run the test app with that broker."""
    part = await start_host(folder, settings={**SETTINGS, "Bus": connection_string(broker_port(broker))})
    yield part
    await part.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(host: Part, broker: Part) -> AsyncIterator[ServiceBusClient]:  # noqa: ARG001 - the app must listen
    """Return a client of the broker."""
    address = connection_string(broker_port(broker))
    async with ServiceBusClient.from_connection_string(address, retry_total=0) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one(client: ServiceBusClient) -> AsyncIterator[ServiceBusSender]:
    """Return a sender to the queue of the function that takes one message."""
    async with client.get_queue_sender("one") as sender:
        yield sender


async def test_function_sees_every_property_of_a_message(one: ServiceBusSender, folder: Path) -> None:
    """Body, ids, application properties, delivery count from 1 and a naive time, as in Azure."""
    message = ServiceBusMessage(
        "properties",
        message_id="m-1",
        correlation_id="c-1",
        subject="s",
        reply_to="answers",
        content_type="text/plain",
        application_properties={"text": "t", "number": 7, "flag": True},
    )
    await one.send_messages(message)
    [seen] = await until(lambda: [trace for trace in traces(folder, "one") if trace["body"] == "properties"])
    assert {
        key: seen[key] for key in ("id", "correlation", "subject", "reply_to", "content_type", "deliveries")
    } == {
        "id": "m-1",
        "correlation": "c-1",
        "subject": "s",
        "reply_to": "answers",
        "content_type": "text/plain",
        "deliveries": 1,
    }
    assert seen["properties"] == {"text": "t", "number": 7, "flag": True}
    assert "+" not in seen["enqueued"]
    assert seen["sequence"] >= 1


async def test_failing_message_is_abandoned_until_it_is_dead_lettered(
    one: ServiceBusSender, folder: Path
) -> None:
    """Each exception counts a delivery; after 3, another function reads it from the dead-letter queue."""
    await one.send_messages(ServiceBusMessage("fail always"))
    await until(lambda: [trace for trace in traces(folder, "dead") if trace["body"] == "fail always"])
    deliveries = [trace["deliveries"] for trace in traces(folder, "one") if trace["body"] == "fail always"]
    assert deliveries == [1, 2, 3]


async def test_output_binding_sends_its_value(client: ServiceBusClient, one: ServiceBusSender) -> None:
    """The value that a function sets on its output is sent to the other queue."""
    await one.send_messages(ServiceBusMessage("answer me"))
    async with client.get_queue_receiver("answers") as receiver:
        [answer] = await receiver.receive_messages(1, max_wait_time=60)
        assert str(answer) == "re: answer me"
        await receiver.complete_message(answer)


async def test_single_messages_are_processed_concurrently(one: ServiceBusSender, folder: Path) -> None:
    """Up to maxConcurrentCalls (4) at once, and no more."""
    await one.send_messages([ServiceBusMessage(f"hold {number}") for number in range(5)])
    await until(lambda: len(traces(folder, "hold")) == 4)
    (folder / "release").touch()
    held = await until(lambda: len(found := traces(folder, "hold")) == 5 and found)
    assert max(trace["running"] for trace in held) == 4


async def test_lock_is_renewed_while_a_function_runs(one: ServiceBusSender, folder: Path) -> None:
    """A message processed for longer than its lock (15 s) is neither redelivered nor lost."""
    await one.send_messages(ServiceBusMessage("sleep 16.5 long"))
    await until(lambda: [trace for trace in traces(folder, "slept") if trace["body"] == "sleep 16.5 long"])
    assert [trace["deliveries"] for trace in traces(folder, "one") if trace["body"] == "sleep 16.5 long"] == [
        1
    ]


async def test_many_messages_are_delivered_in_batches(client: ServiceBusClient, folder: Path) -> None:
    """Each message once, in order, at most maxMessageBatchSize (50) together, with its own properties."""
    names = [f"m{number}" for number in range(120)]
    async with client.get_queue_sender("many") as sender:
        messages = [
            ServiceBusMessage(name, message_id=name, application_properties={"n": name}) for name in names
        ]
        await sender.send_messages(messages)

    def taken() -> list[list[tuple[Any, ...]]]:
        batches = (
            zip(trace["ids"], trace["bodies"], trace["properties"], strict=True)
            for trace in traces(folder, "many")
        )
        others = ([each for each in batch if each[0] != "slow"] for batch in batches)  # another test's
        return [batch for batch in others if batch]

    await until(lambda: sum(map(len, taken())) >= len(names))
    batches = taken()
    assert [each for batch in batches for each in batch] == [(name, name, {"n": name}) for name in names]
    assert max(map(len, batches)) <= 50
    assert len(batches) < 20


async def test_locks_of_a_batch_are_not_renewed(client: ServiceBusClient, folder: Path) -> None:
    """As in Azure: a batch processed for longer than its locks (10 s) is delivered again."""
    async with client.get_queue_sender("many") as sender:
        await sender.send_messages(ServiceBusMessage("sleep 11", message_id="slow"))
    again = await until(lambda: [t for t in traces(folder, "many") if t["ids"] == ["slow"]][1:])
    assert again[0]["deliveries"] == [2]


async def test_switched_off_function_takes_nothing(one: ServiceBusSender, folder: Path) -> None:
    """A function that a setting disables does not compete for messages."""
    names = {f"for one only {number}" for number in range(10)}
    await one.send_messages([ServiceBusMessage(name) for name in names])
    await until(lambda: names <= {trace["body"] for trace in traces(folder, "one")})
    assert traces(folder, "switched_off") == []


async def test_host_reconnects_after_the_broker_was_killed(tmp_path: Path) -> None:
    """After a restart messages are processed again; the outage and its end are one log line each."""
    broker = await start_broker(tmp_path)
    port = broker_port(broker)
    host = await start_host(tmp_path, settings={**SETTINGS, "Bus": connection_string(port)})
    broker.process.kill()
    await broker.process.wait()
    await until(lambda: "function on_one: queue one is not reachable" in host.log)
    again = await start_broker(tmp_path, port)
    await until(lambda: "function on_one: queue one is reachable again" in host.log)
    async with (
        ServiceBusClient.from_connection_string(connection_string(port), retry_total=0) as client,
        client.get_queue_sender("one") as sender,
    ):
        await sender.send_messages(ServiceBusMessage("after the outage"))
    await until(lambda: [trace["body"] for trace in traces(tmp_path, "one")] == ["after the outage"])
    assert host.log.count("function on_one: queue one is not reachable") == 1
    await host.stop()
    await again.stop()


async def test_stop_releases_unfinished_messages(tmp_path: Path) -> None:
    """An unfinished message is available at once, without waiting for its lock to expire."""
    broker = await start_broker(tmp_path)
    address = connection_string(broker_port(broker))
    host = await start_host(tmp_path, settings={**SETTINGS, "Bus": address, "STOP_GRACE": "8"})
    async with ServiceBusClient.from_connection_string(address, retry_total=0) as client:
        async with client.get_queue_sender("one") as sender:
            await sender.send_messages([ServiceBusMessage("sleep 60"), ServiceBusMessage("sleep 0.3")])
        await until(lambda: len(traces(tmp_path, "one")) == 2)
        assert await host.stop() == 0
        async with client.get_queue_receiver("one") as receiver:
            messages = await receiver.receive_messages(2, max_wait_time=10)
    assert [(str(message), message.delivery_count) for message in messages] == [("sleep 60", 1)]
    await broker.stop()


async def test_broker_reads_the_output_of_queues(tmp_path: Path) -> None:
    """With its own defaults for each queue, and no other queue."""
    queues = print_queues(APP, TICK="0 0 0 1 1 *", MANY_QUEUE="several", TRACES=str(tmp_path))
    config = tmp_path / "queues.json"
    config.write_text(json.dumps(queues))
    broker = await start_broker(tmp_path, config=config)
    address = connection_string(broker_port(broker))
    async with ServiceBusClient.from_connection_string(address, retry_total=0) as client:
        for queue in ("one", "several", "answers"):
            async with client.get_queue_sender(queue) as sender:
                await sender.send_messages(ServiceBusMessage("hello"))
        other = client.get_queue_sender("other")
        with pytest.raises(ServiceBusError):
            await other.send_messages(ServiceBusMessage("hello"))
        await other.close()
    await broker.stop()
