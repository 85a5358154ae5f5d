"""The parts of hubs that need no connection: keys, events' bytes, positions, memory, who may read."""

from __future__ import annotations

from collections import deque

import pytest

from servicebus_local.codec.encoding import composite, encode, timestamp, ubyte, uint
from servicebus_local.codec.values import AmqpError, Encodable, Symbol
from servicebus_local.content import Section
from servicebus_local.errors import ArgumentError, LinkStolenError, QuotaExceededError
from servicebus_local.hubs.event import Event, parse_event, parse_events, with_delivery_annotations
from servicebus_local.hubs.partition import Place, Start, Tail
from servicebus_local.hubs.partition_keys import key_hash, partition_of
from servicebus_local.hubs.readers import Readers
from tests.hub_wire import batch
from tests.wire import data_message, read_sections, section

_VECTORS = {
    "7": -15263,
    "7149583486996073602": 12977,
    "FWfAT": -22341,
    "$0cb": 26269,
    "-4189260826195535198": 453,
}


@pytest.mark.parametrize(("key", "expected"), _VECTORS.items())
def test_keys_are_hashed_as_the_service_does(key: str, expected: int) -> None:
    """The values are those of the tests of the client for .NET; the remainder is cut towards zero."""
    assert key_hash(key) == expected
    assert partition_of(key, 32) == abs(expected) % 32


def test_keys_are_hashed_as_utf8() -> None:
    """Two bytes for one letter; each partition gets some of many keys."""
    assert key_hash("é") != key_hash("e")
    assert {partition_of(f"order-{number}", 32) for number in range(1000)} == set(range(32))


def _annotated() -> dict[str, bytes]:
    """Return the sections of an event that has all of them, in the standard's order."""
    marks: dict[str, Encodable] = {Symbol("x-opt-partition-key"): "k", Symbol("x-mine"): 7}
    marks["x-opt-offset"] = "fake"
    return {
        "header": composite(Section.HEADER, [True, ubyte(4), uint(60_000), None, uint(3)]),
        "delivery": section(Section.DELIVERY_ANNOTATIONS, {Symbol("x-hop"): 1}),
        "marks": section(Section.MESSAGE_ANNOTATIONS, marks),
        "properties": composite(Section.PROPERTIES, [None, b"user", None, None, None, "correlation"]),
        "application": section(Section.APPLICATION_PROPERTIES, {"traceparent": "00-1", "n": 2}),
        "body": section(Section.VALUE, {"any": ["kind", 1.5, None]}),
        "footer": section(Section.FOOTER, {Symbol("x-crc"): 9}),
    }


def test_an_event_keeps_every_byte_but_the_annotations() -> None:
    """Sections come in any order (Python writes delivery annotations last), and leave in the standard's."""
    parts = _annotated()
    shuffled = b"".join([parts[name] for name in parts if name != "delivery"]) + parts["delivery"]
    content, key = parse_event(shuffled)
    wire = content.event(3, 450, 1_700_000_000_000).wire
    own = [("sequence-number", b"\x81" + (3).to_bytes(8)), ("offset", encode("450"))]
    own.append(("enqueued-time", timestamp(1_700_000_000_000)))
    pairs = b"".join(encode(Symbol(f"x-opt-{name}")) + value for name, value in own)
    pairs += encode(Symbol("x-opt-partition-key")) + encode("k") + encode(Symbol("x-mine")) + encode(7)
    before, _, after = wire.partition(pairs)
    assert before[:-3].removesuffix(b"\x00\x53\x72") == parts["header"] + parts["delivery"]
    assert after == parts["properties"] + parts["application"] + parts["body"] + parts["footer"]
    assert key == "k"


def test_an_event_gets_no_message_id() -> None:
    """Nothing is added to its properties, and none are made."""
    content, key = parse_event(data_message(b"a"))
    assert set(read_sections(content.event(0, 0, 0).wire)) == {Section.MESSAGE_ANNOTATIONS, Section.DATA}
    assert key is None


def test_the_key_of_a_batch_is_that_of_its_envelope() -> None:
    """The keys of its events do not count: they go to one partition."""
    own = section(Section.MESSAGE_ANNOTATIONS, {Symbol("x-opt-partition-key"): "inner"})
    inner = data_message(b"a", before=own)
    contents, key = parse_events(batch(inner, data_message(b"b"), key="outer"))
    assert (len(contents), key) == (2, "outer")
    assert parse_events(batch(inner))[1] is None


@pytest.mark.parametrize(
    "message",
    [
        b"nonsense",
        section(Section.DATA, b"a")[:-1],
        section(Section.APPLICATION_PROPERTIES, [1]),
        section(Section.HEADER, {"a": 1}),
        b"\x00\x53\x79" + encode("no such section"),
    ],
)
def test_what_no_reader_could_read_is_refused(message: bytes) -> None:
    """One sender's bad bytes must not stop the readers of a partition."""
    with pytest.raises(AmqpError):
        parse_event(message)


def test_delivery_annotations_are_added_to_the_senders() -> None:
    """For a reader that requested the number of the newest event."""
    parts = _annotated()
    content, _ = parse_event(b"".join(parts.values()))
    told = read_sections(with_delivery_annotations(content.event(0, 0, 0).wire, [("last", ubyte(1))]))
    assert told[Section.DELIVERY_ANNOTATIONS] == {"x-hop": 1, "last": 1}
    assert told[Section.VALUE] == {"any": ["kind", 1.5, None]}


@pytest.mark.parametrize(
    ("selector", "start"),
    [
        (None, Start(Place.OFFSET, -1)),
        ("amqp.annotation.x-opt-offset > '-1'", Start(Place.OFFSET, -1)),
        ("amqp.annotation.x-opt-offset > '@latest'", Start(Place.OFFSET, None)),
        ("amqp.annotation.x-opt-offset >= '120'", Start(Place.OFFSET, 120, inclusive=True)),
        ("amqp.annotation.x-opt-sequence-number > 17", Start(Place.SEQUENCE_NUMBER, 17)),
        ("amqp.annotation.x-opt-enqueued-time >'1700'", Start(Place.ENQUEUED_TIME, 1700)),
    ],
)
def test_selectors(selector: str | None, start: Start) -> None:
    """Python quotes numbers, .NET need not."""
    assert Start.read(selector) == start


@pytest.mark.parametrize(
    "selector", ["", "x > 1", "amqp.annotation.x-opt-offset > 'a'", "amqp.annotation.x-opt-a > 1"]
)
def test_other_selectors_are_refused(selector: str) -> None:
    """Nothing is guessed: a reader that starts at the wrong place reads twice or not at all."""
    with pytest.raises(ArgumentError, match="is not one of a position"):
        Start.read(selector)


def test_memory_is_bounded_over_all_partitions() -> None:
    """By events and by bytes; the oldest of all goes, whatever retention took out before."""
    tail = Tail(max_events=3, max_bytes=100)
    first, second = deque[Event](), deque[Event]()
    for number in range(2):
        tail.add(first, Event(number, 0, 0, b"a"))
    tail.add(second, Event(0, 0, 0, b"a"))
    first.popleft()
    tail.add(second, Event(1, 0, 0, b"a"))
    assert ([event.sequence_number for event in first], len(second), len(tail)) == ([1], 2, 3)
    tail.add(second, Event(2, 0, 0, b"a" * 99))
    assert (len(first), len(second), len(tail)) == (0, 2, 2)


class _Reader:
    def __init__(self, epoch: int | None) -> None:
        self.epoch = epoch
        self.ended = ""

    def displace(self, error: LinkStolenError) -> None:
        self.ended = str(error)


def test_the_later_of_two_equal_epochs_wins() -> None:
    """The clients' processors all come with epoch 0."""
    readers, first, second, lower = Readers(), _Reader(2), _Reader(2), _Reader(1)
    readers.admit(first)
    readers.admit(second)
    assert "higher epoch of '2' is created hence current receiver 'nil' with epoch '2'" in first.ended
    with pytest.raises(LinkStolenError, match=r"higher epoch '2' already exists.*epoch 1 cannot be created"):
        readers.admit(lower)
    readers.remove(second)
    readers.admit(lower)


def test_readers_without_epoch_share_and_yield() -> None:
    """Five of them; one with an epoch ends them all, and lets none in while it is connected."""
    readers, shared = Readers(), [_Reader(None) for _ in range(5)]
    for reader in shared:
        readers.admit(reader)
    with pytest.raises(QuotaExceededError):
        readers.admit(_Reader(None))
    readers.admit(_Reader(0))
    assert all("epoch 'nil'" in reader.ended for reader in shared)
    with pytest.raises(LinkStolenError, match="non-epoch receiver is not allowed"):
        readers.admit(_Reader(None))
