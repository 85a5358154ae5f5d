"""Scheduled messages, times to live, and duplicate detection."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageNotFoundError, MessageSizeExceededError

from servicebus_local.testing import RunningBroker
from tests.clients import Links, take

pytestmark = pytest.mark.process


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_scheduled_message_is_delivered_at_its_time_and_a_cancelled_one_never(links: Links) -> None:
    """Until its time a message can only be peeked; then it gets a new sequence number."""
    sender, receiver = links.sender("orders"), links.receiver("orders")
    messages = [ServiceBusMessage("kept"), ServiceBusMessage("cancelled")]
    receiver.peek_messages(1)  # opens the link that peeks, which must not take of the time until then
    due = _in(3)
    kept, cancelled = sender.schedule_messages(messages, due)
    peeked = receiver.peek_messages(5, sequence_number=1)
    assert [message.state for message in peeked] == [ServiceBusMessageState.SCHEDULED] * 2
    sender.cancel_scheduled_messages(cancelled)
    (message,) = take(receiver)
    assert str(message) == "kept"
    assert message.enqueued_time_utc is not None
    assert message.enqueued_time_utc > due - timedelta(milliseconds=1)
    assert (message.sequence_number or 0) > kept
    receiver.complete_message(message)
    assert receiver.peek_messages(5, sequence_number=1) == []
    with pytest.raises(MessageNotFoundError):
        sender.cancel_scheduled_messages(cancelled)


@pytest.mark.parametrize("size", [262_000, 300_000, 2_000_000])
def test_largest_message_can_be_scheduled_and_a_larger_one_is_refused(links: Links, size: int) -> None:
    """The request around it is larger than a message may be; what is refused is answered at once."""
    sender = links.sender("orders")
    if size > 256 * 1024:
        with pytest.raises(MessageSizeExceededError):
            sender.schedule_messages(ServiceBusMessage(b"z" * size), _in(3600), timeout=50)
    else:
        (number,) = sender.schedule_messages(ServiceBusMessage(b"z" * size, message_id="m"), _in(3600))
        sender.cancel_scheduled_messages(number)


def test_message_can_carry_its_own_schedule(links: Links) -> None:
    """A message sent with a scheduled enqueue time waits for it."""
    sender, receiver = links.sender("orders"), links.receiver("orders")
    sender.send_messages(ServiceBusMessage("later", scheduled_enqueue_time_utc=_in(3)))
    assert receiver.receive_messages(1, 0.2) == []
    (message,) = take(receiver)
    assert message.enqueued_time_utc is not None
    assert message.scheduled_enqueue_time_utc is not None
    assert message.enqueued_time_utc >= message.scheduled_enqueue_time_utc


def test_expired_message_is_dead_lettered_if_the_queue_is_configured_so(links: Links) -> None:
    """A message whose time to live has passed is dead-lettered with the reason of Service Bus."""
    message = ServiceBusMessage("old", time_to_live=timedelta(milliseconds=300))
    links.sender("expiring").send_messages(message)
    (dead,) = take(links.dead_letters("expiring"))
    assert dead.dead_letter_reason == "TTLExpiredException"


def test_expired_message_is_dropped_by_default(broker: RunningBroker, links: Links) -> None:
    """A queue's time to live limits that of every message, and expired messages are deleted."""
    links.sender("dropping").send_messages(ServiceBusMessage("old", time_to_live=timedelta(hours=1)))
    deadline = time.monotonic() + 30
    while broker.figures("dropping")["expired"] == 0:
        assert time.monotonic() < deadline, "the message did not expire"
        time.sleep(0.05)
    assert links.receiver("dropping").peek_messages(5, sequence_number=1) == []
    assert broker.figures("dropping")["dead_lettered"] == 0


def test_locked_message_does_not_expire(links: Links) -> None:
    """A message that a receiver holds when its time ends can still be completed."""
    receiver, dead_letters = links.receiver("expiring"), links.dead_letters("expiring")
    message = ServiceBusMessage("held", time_to_live=timedelta(seconds=3))
    links.sender("expiring").send_messages(message)
    (held,) = take(receiver)
    assert dead_letters.receive_messages(1, 3.2) == []
    receiver.complete_message(held)


def test_duplicate_is_acknowledged_and_dropped(broker: RunningBroker, links: Links) -> None:
    """A message id counts once within the window, inside a batch too, and again after it."""
    sender, receiver = links.sender("unique"), links.receiver("unique")
    for _ in range(3):
        sender.send_messages(ServiceBusMessage("a", message_id="a"))
    sender.send_messages([ServiceBusMessage("a", message_id="a"), ServiceBusMessage("b", message_id="b")])
    sent = time.monotonic()
    messages = take(receiver, 2)
    assert [str(message) for message in messages] == ["a", "b"]
    for message in messages:
        receiver.complete_message(message)
    assert broker.figures("unique")["duplicates_dropped"] == 3
    time.sleep(max(0.0, sent + 3.1 - time.monotonic()))
    sender.send_messages(ServiceBusMessage("again", message_id="a"))
    (message,) = take(receiver)
    assert str(message) == "again"
