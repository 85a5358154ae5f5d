"""A cut connection or a restarted broker costs a client a delay."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusConnectionError

from servicebus_local.testing import running_broker
from tests.broker_process import BrokerProcess, command
from tests.clients import CONFIG, connect, open_links, take

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
        deferred, dead = take(receiver, 2)
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
        old, new = take(receiver, 2)
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
    """After a kill the client reconnects automatically; its lock is lost, the message is not."""
    data = tmp_path / "data"
    with BrokerProcess(command(config, data)) as broker, connect(broker.port, retry_total=5) as client:
        sender, receiver = client.get_queue_sender("work"), client.get_queue_receiver("work")
        sender.send_messages(ServiceBusMessage("survivor"))
        (message,) = take(receiver)
        broker.kill()
        with BrokerProcess(command(config, data, broker.port)):
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(message)
            (again,) = take(receiver)
            assert (str(again), again.delivery_count) == ("survivor", 0)
            receiver.complete_message(again)
            sender.send_messages(ServiceBusMessage("next"))
