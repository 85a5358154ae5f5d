"""A message is received as it was sent, with the properties that the broker adds."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
)
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageSizeExceededError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
)

from tests.clients import Links, take

pytestmark = pytest.mark.process


def test_every_property_and_type_survives_the_round_trip(links: Links) -> None:
    """A message is received with all properties and the exact types of its application properties."""
    reference = uuid.uuid4()
    sent = ServiceBusMessage(
        b"\x00binary",
        application_properties={"n": 1, "big": 2**30, "s": "x", "f": 1.5, "b": True, "u": reference},
        message_id="m1",
        subject="subject",
        correlation_id="correlation",
        reply_to="answers",
        reply_to_session_id="session",
        to="somewhere",
        content_type="application/json",
        time_to_live=timedelta(minutes=5),
        partition_key="key",
    )
    links.sender("orders").send_messages(sent)
    (got,) = take(links.receiver("orders"))
    assert b"".join(got.body) == b"\x00binary"
    assert got.application_properties == {
        b"n": 1,
        b"big": 2**30,
        b"s": b"x",
        b"f": 1.5,
        b"b": True,
        b"u": reference,
    }
    assert (got.message_id, got.subject, got.correlation_id) == ("m1", "subject", "correlation")
    assert (got.reply_to, got.reply_to_session_id, got.to) == ("answers", "session", "somewhere")
    assert (got.content_type, got.time_to_live) == ("application/json", timedelta(minutes=5))
    assert got.partition_key == "key"


def test_broker_adds_time_order_and_lock(links: Links) -> None:
    """A received message carries enqueued time, sequence number, state, lock and delivery count."""
    sender, receiver = links.sender("orders"), links.receiver("orders")
    before = datetime.now(UTC) - timedelta(milliseconds=1)  # the broker's clock has milliseconds
    sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    first, second = take(receiver, 2)
    after = datetime.now(UTC)
    assert second.sequence_number == (first.sequence_number or 0) + 1
    assert first.enqueued_sequence_number is None
    assert first.enqueued_time_utc is not None
    assert before <= first.enqueued_time_utc <= after
    assert first.locked_until_utc is not None
    assert before <= first.locked_until_utc - timedelta(seconds=30) <= after
    assert first.delivery_count == 0
    assert first.state is ServiceBusMessageState.ACTIVE
    receiver.complete_message(first)
    with pytest.raises(MessageAlreadySettled):
        receiver.complete_message(first)


def test_batches_keep_their_order(links: Links) -> None:
    """A batch object and a list arrive message by message, in order."""
    sender, receiver = links.sender("orders"), links.receiver("orders")
    batch = sender.create_message_batch()
    for number in range(150):
        batch.add_message(ServiceBusMessage(str(number), application_properties={"number": number}))
    sender.send_messages(batch)
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(150, 160)])
    bodies: list[str] = []
    while len(bodies) < 160:
        # No more than are left: an idle receiver would take the messages of the next test.
        messages = take(receiver, min(100, 160 - len(bodies)))
        bodies += map(str, messages)
        for message in messages:
            receiver.complete_message(message)
    assert bodies == [str(number) for number in range(160)]


def test_large_message_crosses_several_frames_and_a_larger_one_is_refused(links: Links) -> None:
    """Up to 256 KiB are accepted; above that the client gets MessageSizeExceededError and can continue."""
    sender, receiver = links.sender("orders"), links.receiver("orders")
    sender.send_messages(ServiceBusMessage(b"z" * 200_000))
    (got,) = take(receiver)
    assert b"".join(got.body) == b"z" * 200_000
    receiver.complete_message(got)
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(ServiceBusMessage(b"z" * 300_000))
    assert sender.create_message_batch().max_size_in_bytes == 256 * 1024
    sender.send_messages(ServiceBusMessage("still working"))


def test_full_queue_refuses_and_an_emptied_one_accepts_again(links: Links) -> None:
    """A full queue answers with a quota error, and a completed message frees its space."""
    sender, receiver = links.sender("small"), links.receiver("small")
    sender.send_messages(ServiceBusMessage(b"z" * 800))
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.send_messages(ServiceBusMessage(b"z" * 300))
    (got,) = take(receiver)
    receiver.complete_message(got)
    sender.send_messages(ServiceBusMessage(b"z" * 300))


def test_peek_shows_without_taking(links: Links) -> None:
    """Peeking pages through all messages, locked ones too, and a peeked message can't be settled."""
    receiver = links.receiver("orders")
    assert receiver.peek_messages(5, sequence_number=1) == []
    links.sender("orders").send_messages([ServiceBusMessage(str(number)) for number in range(5)])
    (locked,) = take(receiver)
    page = receiver.peek_messages(3, sequence_number=1)
    rest = receiver.peek_messages(10, sequence_number=(page[-1].sequence_number or 0) + 1)
    assert [str(message) for message in page + rest] == ["0", "1", "2", "3", "4"]
    with pytest.raises(ValueError, match="peek"):
        receiver.complete_message(page[0])
    receiver.complete_message(locked)


def test_receive_and_delete_deletes_the_message(client: ServiceBusClient, links: Links) -> None:
    """Without locks a message is deleted when it is received."""
    links.sender("solo").send_messages([ServiceBusMessage(str(number)) for number in range(5)])
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver("solo", receive_mode=mode) as receiver:
        got = take(receiver, 5)
    assert [str(message) for message in got] == ["0", "1", "2", "3", "4"]
    assert got[0].lock_token is None
    assert links.receiver("solo").peek_messages(5, sequence_number=1) == []


def test_iterating_receives_until_the_queue_is_empty(client: ServiceBusClient, links: Links) -> None:
    """A receiver can be iterated over, and stops after its waiting time."""
    links.sender("solo").send_messages([ServiceBusMessage(str(number)) for number in range(20)])
    with client.get_queue_receiver("solo", max_wait_time=3) as receiver:
        bodies = []
        for message in receiver:
            receiver.complete_message(message)
            bodies.append(str(message))
    assert bodies == [str(number) for number in range(20)]


def test_queue_names_are_case_insensitive(client: ServiceBusClient, links: Links) -> None:
    """A queue is found by its name in any case."""
    with client.get_queue_sender("ORDERS") as sender:
        sender.send_messages(ServiceBusMessage("loud"))
    (got,) = take(links.receiver("orders"))
    assert str(got) == "loud"


def test_unknown_queue_is_not_found(client: ServiceBusClient) -> None:
    """Azure refuses its token already: sending and receiving raise ServiceBusAuthenticationError."""
    with pytest.raises(ServiceBusAuthenticationError) as refused, client.get_queue_sender("nowhere"):
        pass
    assert "Status code: 404" in str(refused.value.inner_exception)
    assert "entity 'nowhere' could not be found" in str(refused.value.inner_exception)
    with pytest.raises(ServiceBusAuthenticationError), client.get_queue_receiver("nowhere"):
        pass


def test_session_receiver_is_refused(client: ServiceBusClient) -> None:
    """The broker has no sessions and says so, instead of delivering messages without them."""
    with (
        pytest.raises(ServiceBusError, match="does not require sessions"),
        client.get_queue_receiver("orders", session_id="one"),
    ):
        pass
