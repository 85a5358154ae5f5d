"""A cut connection costs a client a delay; a killed broker loses nothing that was acknowledged."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusConnectionError, ServiceBusError

from servicebus_local.testing import running_broker
from tests.broker_process import BrokerProcess, command
from tests.clients import CONFIG, connect, open_links

#: The client forgets to close a socket that was cut.
pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


@pytest.fixture(autouse=True)
def _free_leaked_sockets() -> Iterator[None]:
    """Raise the warnings about them while they are ignored."""
    yield
    gc.collect()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write a configuration with one queue."""
    file = tmp_path / "queues.json"
    file.write_text(json.dumps({"queues": [{"name": "work", "properties": {"lockDuration": "PT5M"}}]}))
    return file


def test_dropped_connections_are_reopened(tmp_path: Path) -> None:
    """When all connections are cut a client without retries sees it once, and its next send goes through."""
    with running_broker(CONFIG, tmp_path) as broker:
        with open_links(broker.endpoints.port) as links:
            sender = links.sender("orders")
            sender.send_messages(ServiceBusMessage("before"))
            assert broker.inject(kind="drop-connections") == 1
            with pytest.raises(ServiceBusConnectionError):
                sender.send_messages(ServiceBusMessage("lost"))
            sender.send_messages(ServiceBusMessage("after"))
        assert broker.figures("orders")["active"] == 2


def test_restart_keeps_messages_states_and_numbers(tmp_path: Path) -> None:
    """After an orderly restart all messages keep their states, and sequence numbers continue."""
    with running_broker(CONFIG, tmp_path) as broker, open_links(broker.endpoints.port) as links:
        sender, receiver = links.sender("orders"), links.receiver("orders")
        sender.send_messages([ServiceBusMessage(name) for name in ("deferred", "dead", "active")])
        deferred, dead = receiver.receive_messages(2, 3)
        receiver.defer_message(deferred)
        receiver.dead_letter_message(dead, reason="bad")
        sender.schedule_messages(ServiceBusMessage("scheduled"), datetime.now(UTC) + timedelta(hours=1))
    with running_broker(CONFIG, tmp_path) as broker, open_links(broker.endpoints.port) as links:
        sender, receiver = links.sender("orders"), links.receiver("orders")
        states = ("active", "deferred", "scheduled", "dead_lettered", "locked")
        assert [broker.figures("orders")[state] for state in states] == [1, 1, 1, 1, 0]
        sender.send_messages(ServiceBusMessage("new"))
        (again,) = receiver.receive_deferred_messages(deferred.sequence_number or 0)
        assert str(again) == "deferred"
        old, new = receiver.receive_messages(2, 3)
        assert [str(old), str(new)] == ["active", "new"]
        assert (new.sequence_number or 0) > (old.sequence_number or 0)


def test_restart_keeps_seen_ids(tmp_path: Path) -> None:
    """A duplicate is detected although the first message was sent before a restart."""
    with running_broker(CONFIG, tmp_path) as broker, open_links(broker.endpoints.port) as links:
        links.sender("remembering").send_messages(ServiceBusMessage("once", message_id="once"))
    with running_broker(CONFIG, tmp_path) as broker, open_links(broker.endpoints.port) as links:
        links.sender("remembering").send_messages(ServiceBusMessage("once", message_id="once"))
        assert broker.figures("remembering")["active"] == 1
        assert broker.figures("remembering")["duplicates_dropped"] == 1


def test_client_finds_a_restarted_broker(config: Path, tmp_path: Path) -> None:
    """After a kill the client reconnects by itself; its lock is lost, the message is not."""
    data = tmp_path / "data"
    with BrokerProcess(command(config, data)) as broker, connect(broker.port, retry_total=5) as client:
        sender, receiver = client.get_queue_sender("work"), client.get_queue_receiver("work")
        sender.send_messages(ServiceBusMessage("survivor"))
        (message,) = receiver.receive_messages(1, 3)
        broker.kill()
        with BrokerProcess(command(config, data, broker.port)):
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(message)
            (again,) = receiver.receive_messages(1, 5)
            assert (str(again), again.delivery_count) == ("survivor", 0)
            receiver.complete_message(again)
            sender.send_messages(ServiceBusMessage("next"))


@dataclass
class _Ledger:
    """What clients tried, and what was acknowledged to them."""

    acknowledged: set[str] = field(default_factory=set)
    completing: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)


def _produce(client: ServiceBusClient, batch: int, prefix: str, ledger: _Ledger) -> None:
    """Send until the broker dies."""
    number = 0
    try:
        with client.get_queue_sender("work") as sender:
            while True:
                names = [f"{prefix}-{number + index}" for index in range(batch)]
                number += batch
                sender.send_messages([ServiceBusMessage(name, message_id=name) for name in names], timeout=3)
                ledger.acknowledged.update(names)
    except (ServiceBusError, ValueError):
        return


def _consume(client: ServiceBusClient, ledger: _Ledger) -> None:
    """Complete until the broker dies."""
    try:
        with client.get_queue_receiver("work") as receiver:
            while True:
                for message in receiver.receive_messages(20, 1):
                    ledger.completing.add(str(message))
                    receiver.complete_message(message)
                    ledger.completed.add(str(message))
    except (ServiceBusError, ValueError):
        return


def _wait_for_progress(ledger: _Ledger) -> None:
    target_sent, target_done = len(ledger.acknowledged) + 300, len(ledger.completed) + 50
    deadline = time.monotonic() + 20
    while len(ledger.acknowledged) < target_sent or len(ledger.completed) < target_done:
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.01)


def _left(broker: BrokerProcess) -> list[str]:
    names: list[str] = []
    with connect(broker.port) as client, client.get_queue_receiver("work", prefetch_count=500) as receiver:
        while messages := receiver.receive_messages(500, 1):
            for message in messages:
                names.append(str(message))
                receiver.complete_message(message)
    return names


def test_kill_loses_nothing_acknowledged_and_returns_nothing_completed(config: Path, tmp_path: Path) -> None:
    """Killed under load again and again, the broker keeps every acknowledged send and completion."""
    ledger, words = _Ledger(), command(config, tmp_path / "data")
    for kill in range(3):
        with BrokerProcess(words) as broker, connect(broker.port) as client:
            threads = [
                threading.Thread(target=_produce, args=(client, 1, f"single-{kill}", ledger)),
                threading.Thread(target=_produce, args=(client, 20, f"batch-{kill}", ledger)),
                threading.Thread(target=_consume, args=(client, ledger)),
            ]
            for thread in threads:
                thread.start()
            try:
                _wait_for_progress(ledger)
            finally:
                broker.kill()
                for thread in threads:
                    thread.join()
    with BrokerProcess(words) as broker:
        left = _left(broker)
    assert len(left) == len(set(left))
    assert ledger.acknowledged - ledger.completing <= set(left)
    assert not ledger.completed & set(left)
