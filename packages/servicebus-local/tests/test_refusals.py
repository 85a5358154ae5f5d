"""Bad input is refused at the door with a sentence, and harms no other client."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError, ServiceBusQuotaExceededError

from servicebus_local.amqp.performatives import Performative
from servicebus_local.codec.encoding import (
    composite,
    encode_list,
    int32,
    long,
    timestamp,
    uint,
    ulong,
    ushort,
)
from servicebus_local.codec.values import Described, Encodable, Encoded, Symbol
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
    performative,
    section,
    transfer,
)

pytestmark = pytest.mark.process

_COORDINATOR = composite(0x30, [])


def _header(priority: Encodable = None, time_to_live: Encodable = None) -> bytes:
    return section(Section.HEADER, [None, priority, time_to_live])


def _scheduled(when: Encodable) -> bytes:
    return section(Section.MESSAGE_ANNOTATIONS, {Symbol("x-opt-scheduled-enqueue-time"): when})


_BAD = {
    "priority": data_message(b"bad", _header(priority=uint(256))),
    "negative priority": data_message(b"bad", _header(priority=-1)),
    "time to live": data_message(b"bad", _header(time_to_live=ulong(2**32))),
    "longest time to live": data_message(b"bad", _header(time_to_live=ulong(2**64 - 1))),
    "schedule": data_message(b"bad", _scheduled(ulong(2**63))),
    "schedule after all time": data_message(b"bad", _scheduled(timestamp(253_402_300_800_000))),
    "properties in a list": data_message(b"bad", b"\x00\x53\x74" + encode_list(["key", "value"])),
    "property without value": data_message(b"bad", b"\x00\x53\x74\xc1\x04\x01\xa1\x01k"),
    "properties that end early": data_message(b"bad", b"\x00\x53\x73\xc0\x03\x05\xa1\x00"),
    "properties with a rest": data_message(b"bad", b"\x00\x53\x73\xc0\x05\x01\xa1\x01i\x40"),
    "annotations that end early": data_message(b"bad", b"\x00\x53\x72\xc1\x03\x02\xa3\x00"),
    "long id": data_message(b"bad", section(Section.PROPERTIES, ["i" * 129])),
    "64 KB of properties": data_message(b"bad", section(Section.APPLICATION_PROPERTIES, {"k": "v" * 65_536})),
    "footer in a list": data_message(b"bad", after=section(Section.FOOTER, ["key", "value"])),
}


@pytest.mark.parametrize("bad", _BAD.values(), ids=_BAD)
def test_bad_message_is_refused_and_its_neighbours_arrive(broker: RunningBroker, bad: bytes) -> None:
    """It stands between two others in one write, while a receiver that deletes waits for them."""
    with WireClient(broker.endpoints.port) as receiver, WireClient(broker.endpoints.port) as sender:
        receiver.send(attach_receiver("solo", deletes=True), credit(9))
        receiver.until(Performative.ATTACH)
        sender.send(attach_sender("solo"))
        sender.until(Performative.FLOW)
        good = [data_message(b"first"), data_message(b"last")]
        sender.send(transfer(0, good[0]), transfer(1, bad), transfer(2, good[1]))
        outcomes = {seen.fields[1]: _outcome(seen) for seen in _dispositions(sender, 3)}
        received = [receiver.until(Performative.TRANSFER).payload for _ in good]
    assert outcomes == {0: Performative.ACCEPTED, 1: Performative.REJECTED, 2: Performative.ACCEPTED}
    assert [payload.endswith(message) for payload, message in zip(received, good, strict=True)] == [True] * 2


_AT_THE_LIMIT = {
    "priority": data_message(b"good", _header(priority=uint(255))),
    "time to live": data_message(b"good", _header(time_to_live=uint(2**32 - 1))),
    "schedule": data_message(b"good", _scheduled(timestamp(253_402_300_799_999))),
    "id": data_message(b"good", section(Section.PROPERTIES, ["i" * 128])),
    "properties": data_message(b"good", section(Section.APPLICATION_PROPERTIES, {"k": "v" * 65_400})),
}


@pytest.mark.parametrize("good", _AT_THE_LIMIT.values(), ids=_AT_THE_LIMIT)
def test_message_at_a_limit_is_taken(broker: RunningBroker, good: bytes) -> None:
    """And peeked, as every client can read it."""
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_sender("solo"), transfer(0, good))
        assert _outcome(wire.until(Performative.DISPOSITION)) == Performative.ACCEPTED
        first: dict[str, Encodable] = {"from-sequence-number": 1, "message-count": int32(1)}
        status, answer = wire.request("solo", "peek-message", first)
    assert (status, answer["messages"][0]["message"].endswith(data_message(b"good"))) == (200, True)


def _dispositions(wire: WireClient, count: int) -> Iterator[Seen]:
    for _ in range(count):
        yield wire.until(Performative.DISPOSITION)


def _outcome(disposition: Seen) -> object:
    state = disposition.fields[4]
    return state.descriptor if isinstance(state, Described) else None


@pytest.mark.parametrize("again", ["begin", "attach"])
def test_second_use_of_a_number_ends_the_first(broker: RunningBroker, links: Links, again: str) -> None:
    """A session or link under a known number takes its place: nothing is delivered to the old one."""
    repeated = {
        "begin": performative(Performative.BEGIN, None, uint(0), uint(5000), uint(5000)),
        "attach": attach_receiver("faulty"),
    }
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo"), credit(5))
        wire.until(Performative.ATTACH)
        wire.send(repeated[again], attach_receiver("faulty", 1))
        wire.until(Performative.ATTACH)
        links.sender("solo").send_messages(ServiceBusMessage("for others"))
        (message,) = take(links.receiver("solo"))
        links.receiver("solo").complete_message(message)


def test_transactions_are_refused_with_a_sentence(broker: RunningBroker) -> None:
    """The coordinator's link is answered and closed."""
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_sender("", target=_COORDINATOR))
        error = wire.until(Performative.DETACH).fields[2]
    assert isinstance(error, Described)
    assert error.fields()[:2] == ["amqp:not-implemented", "The local broker has no transactions."]


def test_refused_attach_ends_the_link_with_its_number(broker: RunningBroker, links: Links) -> None:
    """The client knows only its last link of a number: nothing is delivered to one before it."""
    with WireClient(broker.endpoints.port) as wire:
        wire.send(attach_receiver("solo"), credit(5))
        wire.until(Performative.ATTACH)
        wire.send(attach_receiver("nowhere"))
        wire.until(Performative.DETACH)
        links.sender("solo").send_messages(ServiceBusMessage("for others"))
        (message,) = take(links.receiver("solo"))
        links.receiver("solo").complete_message(message)


@pytest.mark.parametrize(
    ("spoken", "logged"),
    [
        (
            b"\x16\x03\x01\x02\x00\x01",
            "the client speaks TLS: add UseDevelopmentEmulator=true to its con",
        ),
        (b"GET /$servicebus/websocket HTTP/1.1\r\n", "the client speaks HTTP or WebSockets"),
    ],
)
def test_other_protocols_are_named_in_the_log(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, spoken: bytes, logged: str
) -> None:
    """The client is disconnected, and the log says what to change."""
    with (
        pytest.raises((EOFError, ConnectionError)),
        WireClient(broker.endpoints.port, greeting=spoken) as wire,
    ):
        wire.next()
    assert logged in caplog.text


@pytest.mark.parametrize("idle", [uint(1), long(-1)])
def test_keep_alives_are_limited(broker: RunningBroker, idle: Encoded) -> None:
    """A client that wants thousands of them a second, or opens twice, gets no more than others."""
    opening: list[Encodable] = ["again", None, uint(1 << 20), ushort(100), idle]
    since = time.monotonic()
    with WireClient(broker.endpoints.port) as wire:
        for _ in range(20):
            wire.send(performative(Performative.OPEN, *opening, channel=0))
        wire.until(Performative.BEGIN)
        while wire.keep_alives < 4:
            wire.send(attach_receiver("solo"))
            wire.until(Performative.ATTACH)
        passed = time.monotonic() - since
    assert wire.keep_alives < 5 + 11 * passed


def test_dead_letters_count_towards_the_size_of_their_queue(links: Links) -> None:
    """A queue full of dead letters refuses, until they are completed."""
    sender, receiver = links.sender("small"), links.receiver("small")
    sender.send_messages(ServiceBusMessage(b"z" * 800))
    (message,) = take(receiver)
    receiver.dead_letter_message(message)
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.send_messages(ServiceBusMessage(b"z" * 300))
    (dead,) = take(links.dead_letters("small"))
    links.dead_letters("small").complete_message(dead)
    sender.send_messages(ServiceBusMessage(b"z" * 300))


def test_topics_are_refused_with_a_sentence(links: Links) -> None:
    """A subscription's address names the limit."""
    with pytest.raises(ServiceBusError) as refused:
        links.receiver("alerts/Subscriptions/ops")
    assert "The local broker has no topics" in str(refused.value.inner_exception)
