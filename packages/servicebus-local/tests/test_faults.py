"""Every fault happens as requested, is counted, and can be removed."""

from __future__ import annotations

import time

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)

from servicebus_local.testing import RunningBroker
from tests.clients import Links, take

pytestmark = pytest.mark.process


def test_server_busy_refuses_as_often_as_requested(broker: RunningBroker, links: Links) -> None:
    """Sends, settlements and requests are refused; then everything works again."""
    sender, receiver = links.sender("faulty"), links.receiver("faulty")
    sender.send_messages(ServiceBusMessage("a"))
    (message,) = take(receiver)
    broker.inject(kind="server-busy", queue="FAULTY", count=3)
    with pytest.raises(ServiceBusServerBusyError):
        sender.send_messages(ServiceBusMessage("b"))
    with pytest.raises(ServiceBusServerBusyError):
        receiver.complete_message(message)
    with pytest.raises(ServiceBusServerBusyError):
        receiver.peek_messages(1)
    receiver.complete_message(message)
    sender.send_messages(ServiceBusMessage("c"))
    (fault,) = broker.admin("GET", "/faults")[1]
    assert (fault["kind"], fault["queue"], fault["fired"], fault["active"]) == (
        "server-busy",
        "faulty",
        3,
        False,
    )


def test_late_acknowledgement_delays_the_sender_not_the_message(broker: RunningBroker, links: Links) -> None:
    """With delayed acknowledgements the message can be received before its sender gets the answer."""
    sender = links.sender("faulty")
    broker.inject(kind="delay-acknowledgements", queue="faulty", milliseconds=700)
    started = time.monotonic()
    sender.send_messages(ServiceBusMessage("slowly acknowledged"))
    assert time.monotonic() - started > 0.6
    broker.admin("DELETE", "/faults")
    (message,) = take(links.receiver("faulty"))
    assert message.enqueued_time_utc is not None
    assert time.time() - message.enqueued_time_utc.timestamp() > 0.6


def test_late_delivery(broker: RunningBroker, links: Links) -> None:
    """With delayed deliveries a message is acknowledged at once and received later."""
    sender, receiver = links.sender("faulty"), links.receiver("faulty")
    broker.inject(kind="delay-deliveries", queue="faulty", milliseconds=60_000)
    started = time.monotonic()
    sender.send_messages(ServiceBusMessage("after this test"))
    assert time.monotonic() - started < 30
    broker.admin("DELETE", "/faults")
    broker.inject(kind="delay-deliveries", queue="faulty", milliseconds=700)
    started = time.monotonic()
    sender.send_messages(ServiceBusMessage("late"))
    (message,) = take(receiver)
    assert str(message) == "late"
    assert time.monotonic() - started > 0.6
    receiver.complete_message(message)


def test_completed_message_is_delivered_twice_and_not_three_times(
    broker: RunningBroker, links: Links
) -> None:
    """A message is delivered again after an acknowledged completion; its second completion is final."""
    receiver = links.receiver("faulty")
    broker.inject(kind="deliver-twice", queue="faulty", count=5)
    links.sender("faulty").send_messages(ServiceBusMessage("again"))
    for count in range(2):
        (message,) = take(receiver)
        assert message.delivery_count == count
        receiver.complete_message(message)
    assert receiver.peek_messages(1, sequence_number=1) == []
    assert broker.admin("GET", "/faults")[1][0]["fired"] == 1


def test_expired_locks_make_messages_available_again(broker: RunningBroker, links: Links) -> None:
    """All locks of a queue end at once: the holder is refused and the message is delivered again."""
    receiver = links.receiver("faulty")
    links.sender("faulty").send_messages(ServiceBusMessage("stolen"))
    (stale,) = take(receiver)
    assert broker.figures("Faulty")["locked"] == 1
    assert broker.inject(kind="expire-locks", queue="faulty") == 1
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(stale)
    (fresh,) = take(receiver)
    assert fresh.delivery_count == 1
    receiver.complete_message(fresh)


def test_detached_links_are_reported_and_reopened(broker: RunningBroker, links: Links) -> None:
    """A detached sender raises once (the client would retry), and its next send opens a new link."""
    sender = links.sender("detached")
    sender.send_messages(ServiceBusMessage("before"))
    assert broker.inject(kind="detach-links", queue="detached") >= 1
    with pytest.raises(ServiceBusConnectionError):
        sender.send_messages(ServiceBusMessage("lost"))
    sender.send_messages(ServiceBusMessage("after"))
    assert broker.figures("detached")["active"] == 2


def test_deleting_the_faults_ends_all_of_them(broker: RunningBroker, links: Links) -> None:
    """Afterwards nothing is listed and nothing is refused."""
    broker.inject(kind="server-busy", queue="faulty", count=100)
    assert broker.admin("DELETE", "/faults") == (200, {"healed": 1})
    assert broker.admin("GET", "/faults") == (200, [])
    links.sender("faulty").send_messages(ServiceBusMessage("welcome"))


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({"kind": "unknown"}, 422),
        ({"kind": "server-busy", "queue": "faulty"}, 422),
        ({"kind": "server-busy", "queue": "faulty", "count": 0}, 422),
        ({"kind": "delay-deliveries", "queue": "faulty", "milliseconds": 60_001}, 422),
        ({"kind": "drop-connections", "queue": "faulty"}, 422),
        ({"kind": "expire-locks", "queue": "nowhere"}, 404),
    ],
)
def test_wrong_faults_are_refused(broker: RunningBroker, fault: dict[str, object], status: int) -> None:
    """Unknown kinds, missing or excessive numbers and unknown queues activate nothing."""
    assert broker.admin("POST", "/faults", fault)[0] == status
    assert broker.admin("GET", "/faults") == (200, [])
