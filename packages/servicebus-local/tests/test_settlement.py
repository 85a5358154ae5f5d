"""Settling, abandoning, deferring and losing locked messages."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
)
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError, ServiceBusError

from servicebus_local.testing import RunningBroker
from tests.clients import Links, take

pytestmark = pytest.mark.process


def ask_the_server(message: ServiceBusReceivedMessage) -> None:
    """Bypass the client's own check of the lock's end, so that the broker has to answer."""
    message._expiry = datetime.now(UTC) + timedelta(minutes=1)


def test_abandoned_message_returns_until_its_limit_and_is_dead_lettered(links: Links) -> None:
    """Each abandon counts; at the limit the message goes to the dead letters with its own properties."""
    receiver = links.receiver("orders")
    links.sender("orders").send_messages(ServiceBusMessage("poison", application_properties={"k": "v"}))
    for count in range(3):
        (message,) = take(receiver)
        assert message.delivery_count == count
        receiver.abandon_message(message)
    (dead,) = take(links.dead_letters("orders"))
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter_error_description == "Message could not be consumed after 3 delivery attempts."
    assert dead.dead_letter_source is None  # only a forwarded one has it
    assert (dead.application_properties or {})[b"k"] == b"v"


def test_abandoned_message_returns_to_its_old_place(links: Links) -> None:
    """An abandoned message is received again before those that were sent after it."""
    receiver = links.receiver("orders")
    links.sender("orders").send_messages([ServiceBusMessage("first"), ServiceBusMessage("second")])
    (first,) = take(receiver)
    receiver.abandon_message(first)
    assert [str(message) for message in take(receiver, 2)] == ["first", "second"]


def test_expired_lock_redelivers_and_its_token_is_refused(links: Links) -> None:
    """When a lock expires the message is redelivered and counted, and the old token settles nothing."""
    receiver = links.receiver("short-lock")
    links.sender("short-lock").send_messages(ServiceBusMessage("slow"))
    (stale,) = take(receiver)
    (fresh,) = take(receiver)
    assert stale.locked_until_utc is not None
    assert datetime.now(UTC) >= stale.locked_until_utc
    assert (fresh.delivery_count, fresh.sequence_number) == (1, stale.sequence_number)
    ask_the_server(stale)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(stale)
    receiver.complete_message(fresh)


def test_dead_letter_keeps_reason_and_description(links: Links) -> None:
    """Reasons are optional; a dead letter can be abandoned, but not dead-lettered again."""
    receiver, dead_letters = links.receiver("orders"), links.dead_letters("orders")
    links.sender("orders").send_messages([ServiceBusMessage("with"), ServiceBusMessage("without")])
    with_reason, without = take(receiver, 2)
    receiver.dead_letter_message(with_reason, reason="bad", error_description="because")
    receiver.dead_letter_message(without)
    assert [str(message) for message in dead_letters.peek_messages(5, sequence_number=1)] == [
        "with",
        "without",
    ]
    first, second = take(dead_letters, 2)
    assert (first.dead_letter_reason, first.dead_letter_error_description) == ("bad", "because")
    assert second.dead_letter_reason is None
    with pytest.raises(ServiceBusError, match="cannot be dead-lettered"):
        dead_letters.dead_letter_message(first)
    # The refusal closed the client's link. The lock is still valid, and any operation opens another link.
    dead_letters.peek_messages(1)
    dead_letters.abandon_message(first)
    (again,) = take(dead_letters)
    assert (str(again), again.delivery_count) == ("with", 0)
    dead_letters.complete_message(again)
    dead_letters.complete_message(second)


def test_deferred_message_is_received_only_by_its_number(links: Links) -> None:
    """A deferred message is invisible to receivers, peeks as deferred, and is settled like any other."""
    receiver = links.receiver("orders")
    links.sender("orders").send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    first, second = take(receiver, 2)
    numbers = [message.sequence_number or 0 for message in (first, second)]
    receiver.defer_message(first)
    receiver.defer_message(second)
    assert receiver.receive_messages(1, 0.2) == []
    peeked = receiver.peek_messages(5, sequence_number=1)
    assert [message.state for message in peeked] == [ServiceBusMessageState.DEFERRED] * 2
    (abandoned,) = receiver.receive_deferred_messages(numbers[0])
    receiver.renew_message_lock(abandoned)
    receiver.abandon_message(abandoned)
    (again,) = receiver.receive_deferred_messages(numbers[0])
    assert again.delivery_count == 1
    receiver.complete_message(again)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(numbers[0])
    (other,) = receiver.receive_deferred_messages(numbers[1])
    receiver.dead_letter_message(other, reason="later")
    (dead,) = take(links.dead_letters("orders"))
    assert dead.dead_letter_reason == "later"


def test_renewed_lock_outlives_its_first_time(broker: RunningBroker, links: Links) -> None:
    """Renewing in time keeps a message; renewing too late is refused."""
    receiver = links.receiver("short-lock")
    links.sender("short-lock").send_messages(ServiceBusMessage("kept"))
    (message,) = take(receiver)
    first_end = message.locked_until_utc
    assert first_end is not None
    while datetime.now(UTC) < first_end:
        until = receiver.renew_message_lock(message)
        assert timedelta(0) < until - datetime.now(UTC) <= timedelta(seconds=14.1)
        time.sleep(0.5)
    receiver.complete_message(message)
    links.sender("short-lock").send_messages(ServiceBusMessage("lost"))
    (message,) = take(receiver)
    broker.inject(kind="expire-locks", queue="short-lock")
    (again,) = take(receiver)
    ask_the_server(message)
    with pytest.raises(MessageLockLostError):
        receiver.renew_message_lock(message)
    receiver.complete_message(again)


def test_automatic_renewer_keeps_a_long_handler_alive(links: Links) -> None:
    """The client's AutoLockRenewer holds a message longer than its lock."""
    receiver = links.receiver("short-lock")
    links.sender("short-lock").send_messages(ServiceBusMessage("long work"))
    with AutoLockRenewer() as renewer:
        (message,) = take(receiver)
        renewer.register(receiver, message, max_lock_renewal_duration=30)
        assert receiver.receive_messages(1, 15) == []
        assert message.auto_renew_error is None
        receiver.complete_message(message)


def test_closing_releases_prefetched_messages_without_counting(
    client: ServiceBusClient, links: Links
) -> None:
    """Messages that a closing receiver fetched but did not return are available at once, not counted."""
    links.sender("solo").send_messages([ServiceBusMessage(str(number)) for number in range(10)])
    with client.get_queue_receiver("solo", prefetch_count=10) as receiver:
        (message,) = take(receiver)
        receiver.complete_message(message)
    receiver = links.receiver("solo")
    assert [message.delivery_count for message in take(receiver, 9)] == [0] * 9


def test_lock_outlives_its_receiver(client: ServiceBusClient, links: Links) -> None:
    """A message that a closed receiver had locked is settled through another one."""
    links.sender("handover").send_messages(ServiceBusMessage("handed over"))
    with client.get_queue_receiver("handover") as receiver:
        (message,) = take(receiver)
    other = links.receiver("handover")
    assert other.receive_messages(1, 0.2) == []
    other.complete_message(message)
    assert other.peek_messages(1, sequence_number=1) == []
