"""What readers and senders of a hub get, frame by frame: positions, errors, epochs, retention, faults."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from servicebus_local.amqp.performatives import Performative
from servicebus_local.codec.encoding import encode
from servicebus_local.content import BATCH_FORMAT, Section
from tests.hub_wire import (
    PATH,
    Wired,
    attach_reader,
    batch,
    error_of,
    marks_of,
    numbers,
    read_events,
    refusal,
    send_events,
    wired,
)
from tests.wire import attach_sender, credit, data_message, detach, transfer

pytestmark = pytest.mark.process


@pytest.fixture
def hub() -> Iterator[Wired]:
    """Run a broker with a hub of one partition, and connect."""
    with wired() as connected:
        yield connected


def _batch_transfer(payload: bytes) -> bytes:
    single = transfer(0, payload, 5)
    format_field = b"\x43"  # uint 0 of the message format follows the tag
    head, tag, rest = single.partition(encode((0).to_bytes(4, "big")))
    changed = head + tag + b"\x70" + BATCH_FORMAT.to_bytes(4, "big") + rest.removeprefix(format_field)
    # Frame and list are four bytes longer.
    size = int.from_bytes(changed[:4], "big") + 4
    return size.to_bytes(4, "big") + changed[4:12] + bytes((changed[12] + 4,)) + changed[13:]


def test_events_are_numbered_without_gaps_and_offsets_grow_by_size(hub: Wired) -> None:
    """Times never go backwards; events come settled, all with the same tag."""
    _, wire = hub
    send_events(wire, b"a", b"b" * 100, b"c")
    wire.send(attach_reader())
    events = read_events(wire, 3)
    marks = [marks_of(event) for event in events]
    assert [event[Section.DATA] for event in events] == [b"a", b"b" * 100, b"c"]
    assert [mark["x-opt-sequence-number"] for mark in marks] == [0, 1, 2]
    offsets = [int(mark["x-opt-offset"]) for mark in marks]
    assert offsets[0] == 0
    assert offsets[2] - offsets[1] == offsets[1] - offsets[0] + 99 + len(str(offsets[1])) - 1
    assert all(earlier <= later for earlier, later in pairwise(mark["x-opt-enqueued-time"] for mark in marks))


def test_transfers_are_settled_with_one_tag(hub: Wired) -> None:
    """The client for Python never settles events, and keeps the tag of each unsettled one."""
    _, wire = hub
    send_events(wire, b"a", b"b")
    wire.send(attach_reader(), credit(2))
    seen = [wire.until(Performative.TRANSFER) for _ in range(2)]
    assert {(each.tag, each.fields[4]) for each in seen} == {(b"\0", True)}


def test_a_batch_is_whole_or_not_at_all(hub: Wired) -> None:
    """One bad event refuses all; then nothing was appended."""
    _, wire = hub
    good = data_message(b"a")
    wire.send(attach_sender("orders", 5), _batch_transfer(batch(good, b"bad")))
    assert "amqp:decode-error" in str(wire.until(Performative.DISPOSITION).fields[4])
    wire.send(_batch_transfer(batch(good, good)), attach_reader())
    assert numbers(read_events(wire, 2)) == [0, 1]


@pytest.mark.parametrize(
    ("selector", "first"),
    [
        (None, 0),
        ("amqp.annotation.x-opt-offset > '-1'", 0),
        ("amqp.annotation.x-opt-offset > '0'", 1),
        ("amqp.annotation.x-opt-offset >= '0'", 0),
        ("amqp.annotation.x-opt-sequence-number > '0'", 1),
        ("amqp.annotation.x-opt-sequence-number >= '2'", 2),
        ("amqp.annotation.x-opt-sequence-number > '2'", 3),
        ("amqp.annotation.x-opt-enqueued-time > '0'", 0),
        ("amqp.annotation.x-opt-enqueued-time > '99999999999999'", 3),
        ("amqp.annotation.x-opt-offset > '@latest'", 3),
    ],
)
def test_starts(hub: Wired, selector: str | None, first: int) -> None:
    """The fourth event comes after the reader."""
    _, wire = hub
    send_events(wire, b"0", b"1", b"2")
    wire.send(attach_reader(0, selector))
    wire.until(Performative.ATTACH)
    wire.send(transfer(9, data_message(b"3"), 5))
    assert numbers(read_events(wire, 1)) == [first]


@pytest.mark.parametrize(
    ("annotation", "what"), [("offset", "offset"), ("sequence-number", "sequence number")]
)
def test_a_start_beyond_the_end_is_refused(hub: Wired, annotation: str, what: str) -> None:
    """A recreated hub counts from 0: reading from an old position must fail."""
    _, wire = hub
    send_events(wire, b"a")
    wire.send(attach_reader(0, f"amqp.annotation.x-opt-{annotation} > '5'"))
    text = f"The supplied {what} '5' is invalid. The last {what} in the system is '0'"
    assert refusal(wire) == ("com.microsoft:argument-error", text)


@pytest.mark.parametrize(
    ("address", "condition", "text"),
    [
        ("lost/ConsumerGroups/$Default/Partitions/0", "amqp:not-found", "could not be found"),
        (PATH.format("lost", 0), "amqp:not-found", "could not be found"),
        (PATH.format("$default", 1), "com.microsoft:argument-out-of-range", "between 0 and 0"),
        (PATH.format("$default", "x"), "com.microsoft:argument-out-of-range", "between 0 and 0"),
        ("orders", "amqp:not-found", "could not be found"),
    ],
)
def test_unknown_addresses(hub: Wired, address: str, condition: str, text: str) -> None:
    """The error text names hub, group and partition."""
    _, wire = hub
    wire.send(attach_reader(address=address))
    found = refusal(wire)
    assert found[0] == condition
    assert text in found[1]


def test_addresses_have_no_case(hub: Wired) -> None:
    """Neither hub nor group."""
    _, wire = hub
    send_events(wire, b"a")
    wire.send(attach_reader(address="ORDERS/consumergroups/ingestion/partitions/0"))
    assert numbers(read_events(wire, 1)) == [0]


def test_an_event_above_one_megabyte_is_refused(hub: Wired) -> None:
    """As the link says when it is attached."""
    _, wire = hub
    wire.send(attach_sender("orders", 5))
    assert wire.until(Performative.ATTACH).fields[10] == 1 << 20
    part = b"x" * (1 << 19)
    head = data_message(b"x" * ((1 << 20) - 8))
    wire.send(_more(head[: 1 << 19]), _more(head[1 << 19 :]), transfer(0, part, 5))
    assert "amqp:link:message-size-exceeded" in str(wire.until(Performative.DISPOSITION).fields[4])


def _more(part: bytes) -> bytes:
    whole = transfer(0, part, 5)
    # The last field of the performative says that more frames follow.
    at = whole.index(part) - 1
    return whole[:at] + b"\x41" + whole[at + 1 :]


def test_a_reader_with_an_epoch_displaces_the_one_before(hub: Wired) -> None:
    """It is detached and gets nothing more; the newer one reads."""
    _, wire = hub
    wire.send(attach_reader(0, epoch=0), credit(10, 0), attach_reader(1, epoch=0))
    seen = wire.until(Performative.DETACH)
    assert (seen.fields[0], error_of(seen)[0]) == (0, "amqp:link:stolen")
    send_events(wire, b"a")
    assert numbers(read_events(wire, 1, 1)) == [0]


def test_a_reader_that_has_left_keeps_no_epoch(hub: Wired) -> None:
    """A lower one, or one without, may read then."""
    _, wire = hub
    wire.send(attach_reader(0, epoch=5), attach_reader(1))
    assert error_of(wire.until(Performative.DETACH))[0] == "amqp:link:stolen"
    wire.send(detach(0), attach_reader(2))
    send_events(wire, b"a")
    assert numbers(read_events(wire, 1, 2)) == [0]


def test_a_tracking_reader_receives_the_newest_number(hub: Wired) -> None:
    """Only one that asked for it: the attach says so."""
    _, wire = hub
    send_events(wire, b"a", b"b")
    wire.send(attach_reader(tracks=True))
    assert wire.until(Performative.ATTACH).fields[11] == ["com.microsoft:enable-receiver-runtime-metric"]
    (event,) = read_events(wire, 1)
    told = event[Section.DELIVERY_ANNOTATIONS]
    assert (told["last_enqueued_sequence_number"], int(told["last_enqueued_offset"]) > 0) == (1, True)


def test_a_slow_reader_skips_dropped_events(hub: Wired) -> None:
    """Without an error, as in Azure; the numbers continue."""
    broker, wire = hub
    send_events(wire, b"a", b"b")
    assert broker.inject(kind="expire-events", hub="orders") == 2
    wire.send(
        attach_reader(0, "amqp.annotation.x-opt-sequence-number > '-1'"), transfer(9, data_message(b"c"), 5)
    )
    assert numbers(read_events(wire, 1)) == [2]
    (partition,) = broker.admin("GET", "/hubs")[1][0]["partitions"]
    assert (partition["begin_sequence_number"], partition["last_sequence_number"]) == (2, 2)


def test_faults_on_a_hub(hub: Wired) -> None:
    """Each does what it says, and refuses what is not there."""
    broker, wire = hub
    wire.send(attach_reader(0, epoch=3))
    wire.until(Performative.ATTACH)
    (partition,) = broker.admin("GET", "/hubs")[1][0]["partitions"]
    assert partition["readers"] == [{"consumer_group": "$default", "epoch": 3}]
    assert broker.inject(kind="steal-partition", hub="orders", partition=0) == 1
    assert refusal(wire)[0] == "amqp:link:stolen"
    broker.inject(kind="server-busy", queue="Orders", count=1)
    wire.send(attach_reader(1))
    assert refusal(wire)[0] == "com.microsoft:server-busy"
    wire.send(attach_reader(2))
    wire.until(Performative.ATTACH)
    assert broker.inject(kind="detach-links", queue="orders") == 1
    assert refusal(wire)[0] == "amqp:link:detach-forced"
    for wrong in ({"hub": "lost"}, {"hub": "orders", "partition": 9}):
        with pytest.raises(ValueError, match=r"404|400"):
            broker.inject(kind="expire-events", **wrong)
    with pytest.raises(ValueError, match="404"):
        broker.inject(kind="deliver-twice", queue="orders", count=1)
