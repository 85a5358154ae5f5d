"""Sent messages are received by receivers that connect, disconnect, wait and read in any order."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

from servicebus_local.amqp import replies
from servicebus_local.amqp.performatives import Performative
from servicebus_local.codec.encoding import ubyte, uint
from servicebus_local.codec.values import Described, Encodable, Symbol
from servicebus_local.content import Section
from servicebus_local.testing import RunningBroker
from tests.clients import Links, take
from tests.wire import (
    Seen,
    WireClient,
    attach_receiver,
    attach_sender,
    credit,
    data_message,
    detach,
    performative,
    read_sections,
    section,
    transfer,
    verdict,
)

pytestmark = pytest.mark.process

#: Leaves room for the properties that the client adds.
_LARGEST = 261_980
_LIMIT_FIELD = 10


def _messages(count: int) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(str(number)) for number in range(count)]


def test_detach_is_answered_after_pending_deletions(broker: RunningBroker, links: Links) -> None:
    """Credit and detach in one write: each message that the broker deletes for the link arrives before."""
    links.sender("solo").send_messages(_messages(20))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo", deletes=True), credit(20), detach())
        received = wire.transfers_until(Performative.DETACH)
    assert len(received) == 20
    assert broker.figures("solo")["active"] == 0


@pytest.mark.parametrize("ending", [Performative.END, Performative.CLOSE])
def test_nothing_is_deleted_for_a_disconnected_receiver(
    broker: RunningBroker, links: Links, ending: Performative
) -> None:
    """Its session or connection ends before the commit: what was not sent is in the queue again."""
    links.sender("solo").send_messages(_messages(20))
    channel = 0 if ending is Performative.CLOSE else 1
    with WireClient(broker.endpoints.port) as wire:
        end = performative(ending, channel=channel)
        wire.send(attach_receiver("solo", deletes=True), credit(20), end)
        received = wire.transfers_until(ending)
    assert len(received) + len(links.receiver("solo").peek_messages(50, sequence_number=1)) == 20


def test_detach_is_answered_after_the_verdicts_before_it(broker: RunningBroker, links: Links) -> None:
    """Otherwise the client asks again elsewhere, and hears that the lock of its completed message is lost."""
    links.sender("solo").send_messages(_messages(1))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo"), credit(1))
        delivery = wire.until(Performative.TRANSFER).fields[1]
        wire.send(verdict(delivery, replies.ACCEPTED), detach())
        assert wire.next().code == Performative.DISPOSITION
        assert wire.next().code == Performative.DETACH
    assert broker.figures("solo")["active"] == 0


def test_verdict_for_a_detached_link_has_no_effect(broker: RunningBroker, links: Links) -> None:
    """The lock outlives the link: Java settles without an outcome what it held when it closed."""
    links.sender("solo").send_messages(_messages(1))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo"), credit(1))
        delivery = wire.until(Performative.TRANSFER).fields[1]
        wire.send(detach())
        wire.until(Performative.DETACH)
        wire.send(verdict(delivery, None, settled=True), attach_receiver("solo", 1))
        wire.until(Performative.ATTACH)
        assert broker.figures("solo")["locked"] == 1


def test_refused_verdict_can_be_repeated(broker: RunningBroker, links: Links) -> None:
    """The refusal is not settled, so that the client may send another verdict for the same delivery."""
    links.sender("faulty").send_messages(_messages(1))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("faulty"), credit(1))
        delivery = wire.until(Performative.TRANSFER).fields[1]
        broker.inject(kind="server-busy", queue="faulty", count=1)
        wire.send(verdict(delivery, replies.ACCEPTED))
        refusal = wire.until(Performative.DISPOSITION)
        wire.send(verdict(delivery, replies.ACCEPTED))
        answer = wire.until(Performative.DISPOSITION)
    assert (refusal.fields[3], _outcome(refusal)) == (False, Performative.REJECTED)
    assert (answer.fields[3], _outcome(answer)) == (True, Performative.ACCEPTED)
    assert broker.figures("Faulty")["active"] == 0


def test_limit_holds_only_where_the_broker_receives(broker: RunningBroker) -> None:
    """Sent messages may be larger: the broker adds annotations, and an answer has many messages."""
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_sender("solo"), attach_receiver("solo", 1), attach_receiver("solo/$management", 2))
        wire.send(attach_sender("solo/$management", 3))
        limits = [wire.until(Performative.ATTACH).fields[_LIMIT_FIELD] for _ in range(4)]
    assert limits == [256 * 1024, 2**64 - 1, 2**64 - 1, 1024 * 1024]


def test_largest_message_is_received(client: ServiceBusClient, links: Links) -> None:
    """An accepted message is delivered, with and without a lock, and peeked."""
    body = b"z" * _LARGEST
    links.sender("solo").send_messages([ServiceBusMessage(body)])
    links.sender("solo").send_messages(ServiceBusMessage(body))
    assert len(links.receiver("solo").peek_messages(2, sequence_number=1)) == 2
    (locked,) = take(links.receiver("solo"))
    links.receiver("solo").complete_message(locked)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver("solo", receive_mode=mode) as receiver:
        (deleted,) = take(receiver)
    assert b"".join(locked.body) == b"".join(deleted.body) == body


def test_peek_of_much_is_answered_in_parts(links: Links) -> None:
    """An answer has about a megabyte; the next peek continues after its last message."""
    for number in range(12):
        links.sender("orders").send_messages(ServiceBusMessage(b"z" * 200_000, subject=str(number)))
    first = links.receiver("orders").peek_messages(12, sequence_number=1)
    rest = links.receiver("orders").peek_messages(12)
    rest += links.receiver("orders").peek_messages(12)
    assert len(first) == 5
    assert [message.subject for message in first + rest] == [str(number) for number in range(12)]


def test_slow_reader_is_given_no_more_than_its_buffer(broker: RunningBroker, links: Links) -> None:
    """With credit for all, it gets some; the others wait in the queue until it reads, and then all come."""
    for _ in range(60):
        links.sender("solo").send_messages(ServiceBusMessage(b"z" * 250_000))
    with WireClient(broker.endpoints.port, receive_buffer=4096) as wire:
        wire.send(attach_receiver("solo"), credit(60))
        wire.until(Performative.ATTACH)
        locked = _settled_figure(broker, "locked")
        assert 0 < locked < 50
        for _ in range(60):
            wire.until(Performative.TRANSFER)
    assert broker.figures("solo")["locked"] == 60


def _outcome(disposition: Seen) -> object:
    state = disposition.fields[4]
    return state.descriptor if isinstance(state, Described) else None


def _settled_figure(broker: RunningBroker, name: str) -> int:
    """Return a figure that does not change any more."""
    seen: list[int] = []
    while len(seen) < 5 or len(set(seen[-5:])) > 1:
        seen.append(broker.figures("solo")[name])
        time.sleep(0.05)
    return seen[-1]


def test_many_links_of_a_slow_reader_share_its_buffer(broker: RunningBroker, links: Links) -> None:
    """All links request all messages in one write."""
    for _ in range(60):
        links.sender("solo").send_messages(ServiceBusMessage(b"z" * 250_000))
    with WireClient(broker.endpoints.port, receive_buffer=4096) as wire:
        wire.send(*[attach_receiver("solo", handle) + credit(60, handle) for handle in range(20)])
        wire.until(Performative.ATTACH)
        assert 0 < _settled_figure(broker, "locked") < 50


def test_closed_window_holds_messages_back(broker: RunningBroker, links: Links) -> None:
    """The client takes two frames; the others come when its window opens, before the detach is answered."""
    links.sender("solo").send_messages(_messages(10))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo", deletes=True), credit(10, window=2))
        received = [wire.until(Performative.TRANSFER) for _ in range(2)]
        wire.send(credit(10, window=100), detach())
        received += wire.transfers_until(Performative.DETACH)
    left = broker.figures("solo")["active"]
    assert len({seen.fields[1] for seen in received}) + left == 10


def test_delivery_without_a_lock_has_no_token(broker: RunningBroker, links: Links) -> None:
    """Its tag is empty, not null; with a lock the tag and a delivery annotation are the token."""
    links.sender("solo").send_messages(_messages(2))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo", deletes=True), credit(1))
        deleted = wire.until(Performative.TRANSFER)
        wire.send(attach_receiver("solo", 1), credit(1, 1))
        locked = wire.until(Performative.TRANSFER)
    assert deleted.tag == b""
    assert Section.DELIVERY_ANNOTATIONS not in read_sections(deleted.payload)
    token = read_sections(locked.payload)[Section.DELIVERY_ANNOTATIONS]["x-opt-lock-token"]
    assert token.bytes_le == locked.tag
    annotations = read_sections(locked.payload)[Section.MESSAGE_ANNOTATIONS]
    assert annotations.keys() == {"x-opt-enqueued-time", "x-opt-sequence-number", "x-opt-locked-until"}


def test_time_to_live_of_the_queue_is_shown_and_limits_a_longer_one(links: Links) -> None:
    """The receiver sees when the message expires, whoever set the time."""
    times = (timedelta(hours=1), None, timedelta(days=9))
    links.sender("daily").send_messages([ServiceBusMessage("lives", time_to_live=each) for each in times])
    received = take(links.receiver("daily"), 3)
    assert [message.time_to_live for message in received] == [
        timedelta(hours=1),
        timedelta(days=1),
        timedelta(days=1),
    ]
    for message in received:
        assert message.enqueued_time_utc is not None
        assert message.expires_at_utc == message.enqueued_time_utc + (message.time_to_live or timedelta())


def test_annotations_and_footer_are_received_as_sent(broker: RunningBroker) -> None:
    """Text keys arrive as symbols, which Java expects; what only the broker says is its own."""
    hop: dict[str, Encodable] = {"hop": 1, "x-opt-lock-token": "mine"}
    header = section(Section.HEADER, [True, ubyte(7), None, True, uint(9)])
    before = header + section(Section.DELIVERY_ANNOTATIONS, hop)
    message = data_message(b"body", before, section(Section.FOOTER, {"checksum": "abc", "größe": 4}))
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_sender("solo"), transfer(0, message), attach_receiver("solo", 1), credit(1, 1))
        received = read_sections(wire.until(Performative.TRANSFER).payload)
    assert received[Section.HEADER] == [True, 7, None, True, 0]
    assert received[Section.DELIVERY_ANNOTATIONS].keys() == {"hop", "x-opt-lock-token"}
    assert received[Section.DELIVERY_ANNOTATIONS]["x-opt-lock-token"] != "mine"
    assert received[Section.FOOTER] == {"checksum": "abc", "größe": 4}
    kinds = {key: type(key) for key in received[Section.FOOTER]}
    assert kinds == {"checksum": Symbol, "größe": str}


@pytest.mark.parametrize(("product", "burst"), [("", 250), ("azure-messaging-servicebus", 50)])
def test_many_messages_leave_in_bursts(broker: RunningBroker, links: Links, product: str, burst: int) -> None:
    """Java's buffer of 256 overflows when thousands come at once: after each burst others have their turn."""
    links.sender("solo").send_messages(_messages(900))
    with WireClient(broker.endpoints.port, product=product) as wire:
        wire.send(attach_receiver("solo"), credit(900), attach_sender("solo", 1))
        wire.until(Performative.ATTACH)
        first = wire.transfers_until(Performative.ATTACH)
        rest = [wire.until(Performative.TRANSFER) for _ in range(900 - len(first))]
    assert len(first) == burst
    assert len({seen.tag for seen in first + rest}) == 900
