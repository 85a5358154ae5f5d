"""The codec agrees with the client's own, keeps what it does not know, and refuses garbage."""

from __future__ import annotations

import math
import uuid
from contextlib import suppress
from typing import Any

import pytest
from azure.servicebus._pyamqp import _decode as client_decode
from azure.servicebus._pyamqp import _encode as client_encode
from azure.servicebus._pyamqp.message import Message as ClientMessage
from azure.servicebus._pyamqp.message import Properties
from hypothesis import given
from hypothesis import strategies as st

from servicebus_local.amqp.frames import Frame, FrameReader, frame
from servicebus_local.codec.decoding import decode, skip, split_list, split_map
from servicebus_local.codec.encoding import (
    encode,
    encode_list,
    int32,
    long,
    long_array,
    symbol_array,
    timestamp,
    timestamp_array,
    ubyte,
    uint,
    ulong,
    ushort,
)
from servicebus_local.codec.values import AmqpError, Described, Symbol
from servicebus_local.content import parse_content

_INT64 = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(max_size=300)
_SCALARS = (
    st.none()
    | st.booleans()
    | _INT64
    | st.floats(allow_nan=False)
    | _TEXT
    | st.binary(max_size=300)
    | st.uuids()
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(_TEXT, inner, max_size=6),
    max_leaves=20,
)


def _as_client_sees_it(value: Any) -> Any:
    """Strings and symbols reach the client as bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [_as_client_sees_it(item) for item in value]
    if isinstance(value, dict):
        return {_as_client_sees_it(key): _as_client_sees_it(item) for key, item in value.items()}
    return value


def _client_reads(data: bytes) -> Any:
    rest, value = client_decode._DECODE_BY_CONSTRUCTOR[data[0]](memoryview(data)[1:])
    assert len(rest) == 0
    return value


@given(_VALUES)
def test_client_reads_encoded_values(value: Any) -> None:
    """The client's decoder gets back every value that the broker encodes."""
    assert _client_reads(encode(value)) == _as_client_sees_it(value)


@given(_VALUES)
def test_decoding_undoes_encoding(value: Any) -> None:
    """An encoded value is decoded to the same value, and `skip` returns the same end."""
    data = encode(value) + b"rest"
    assert decode(data, 0) == (value, len(data) - 4)
    assert skip(data, 0) == len(data) - 4


@given(_VALUES)
def test_broker_reads_the_clients_encoding(value: Any) -> None:
    """The broker's decoder gets back every value that the client encodes."""
    output = bytearray()
    try:
        client_encode.encode_value(output, value)
    except (TypeError, ValueError, OverflowError):
        return  # the client can't write it: a whole number of more than 32 bits, a surrogate
    assert decode(bytes(output), 0)[0] == value


@given(st.binary(max_size=200))
def test_garbage_raises_nothing_but_amqp_errors(data: bytes) -> None:
    """For any bytes, decoding and skipping return or raise AmqpError."""
    for read in (decode, skip, split_list, split_map):
        with suppress(AmqpError):
            read(data + b"\x40", 0)
    with suppress(AmqpError):
        parse_content(data)


@given(_VALUES, st.data())
def test_damaged_values_raise_nothing_but_amqp_errors(value: Any, data: st.DataObject) -> None:
    """A value that was truncated, or changed in one byte, is decoded or refused."""
    encoded = bytearray(encode(value))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(encoded[: data.draw(st.integers(1, len(encoded)))])
    with suppress(AmqpError):
        decode(cut, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"\xf0\xff\xff\xff\xff\xff\xff\xff\xff\x40",  # an array of 4 billion nulls
        b"\xd0\xff\xff\xff\xff\xff\xff\xff\xff",  # a list of 4 billion items
        b"\xc0\x05\x01" * 5000,  # a list in a list in a list …
        b"\x00" * 5000,
        b"\xb0\x00\x00\x00\x05abc",
    ],
)
def test_hostile_sizes_are_refused(data: bytes) -> None:
    """Counts, sizes and depths that the data can't contain are refused at once."""
    with pytest.raises(AmqpError):
        decode(data, 0)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        (uint(0), 0),
        (uint(255), 255),
        (uint(2**32 - 1), 2**32 - 1),
        (ulong(0), 0),
        (ulong(7), 7),
        (ulong(2**64 - 1), 2**64 - 1),
        (int32(-128), -128),
        (int32(-(2**31)), -(2**31)),
        (long(-1), -1),
        (ubyte(255), 255),
        (ushort(65535), 65535),
        (timestamp(1_700_000_000_000), 1_700_000_000_000),
        (long_array([1, -1]), [1, -1]),
        (timestamp_array([0]), [0]),
        (symbol_array(["a", "bc"]), [b"a", b"bc"]),
    ],
)
def test_integers_and_arrays_are_read_by_both_sides(encoded: bytes, value: Any) -> None:
    """Every integer type and array that the broker sends means the same to the client and to itself."""
    assert _client_reads(encoded) == value
    assert _as_client_sees_it(decode(encoded, 0)[0]) == value


def test_types_that_python_lacks_keep_their_meaning() -> None:
    """Symbols, described values, chars and decimals are distinguished from strings and numbers."""
    symbol, _ = decode(encode(Symbol("amqp:x")), 0)
    assert isinstance(symbol, Symbol)
    assert decode(b"\x00\x53\x24\x45", 0) == (Described(0x24, []), 4)
    assert decode(b"\x73\x00\x01\xf6\x00", 0) == ("😀", 5)
    assert decode(b"\x74\x01\x02\x03\x04", 0) == (b"\x01\x02\x03\x04", 5)
    number, _ = decode(encode(math.pi), 0)
    assert number == math.pi


def test_items_of_lists_and_maps_are_split_verbatim() -> None:
    """Splitting returns each item's own bytes, so that it can be written again unchanged."""
    items = [uint(1), encode("x"), encode([1, 2])]
    assert split_list(encode_list([uint(1), "x", [1, 2]]), 0) == items
    assert split_map(encode({"k": "v"}), 0) == [(encode("k"), encode("v"))]
    with pytest.raises(AmqpError):
        split_list(encode("no list"), 0)


def test_client_message_is_split_into_its_sections() -> None:
    """A message keeps its sections' bytes, and loses the annotations that only brokers write."""
    message = ClientMessage(
        properties=Properties(message_id="id"),
        application_properties={"k": "v"},
        message_annotations={b"x-opt-partition-key": b"p", b"x-opt-sequence-number": 99},
        data=[b"body"],
    )
    output = bytearray()
    client_encode.encode_payload(output, message)
    content = parse_content(bytes(output))
    assert content.message_id == "id"
    assert content.annotations.count == 1
    again = ClientMessage(*client_decode.decode_payload(memoryview(content.properties + content.body)))
    assert again.properties is not None
    assert (again.properties.message_id, again.data) == (b"id", [b"body"])


def test_message_without_an_id_is_given_one() -> None:
    """Service Bus gives every message an id; clients in other languages rely on it."""
    content = parse_content(b"\x00\x53\x75\xa0\x01x")
    assert uuid.UUID(hex=content.message_id).version == 4
    assert content.message_id.encode() in content.properties


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10), st.integers(1, 20))
def test_frames_are_found_however_the_stream_is_cut(bodies: list[bytes], step: int) -> None:
    """Frames are complete and in order whatever pieces the network delivers."""
    stream = b"".join(frame(3, body) for body in bodies)
    reader = FrameReader()
    found = [
        received
        for start in range(0, len(stream), step)
        for received in reader.feed(stream[start : start + step])
    ]
    assert found == [Frame(0, 3, body) for body in bodies]


@pytest.mark.parametrize(
    "head",
    [b"\x00\x00\x00\x07\x02", b"\x7f\xff\xff\xff\x02", b"\x00\x00\x00\x08\x01", b"GET / HT"],
)
def test_impossible_frames_are_refused(head: bytes) -> None:
    """A size below the head's, above the limit, or another protocol altogether is refused at once."""
    with pytest.raises(AmqpError):
        list(FrameReader().feed(head + b"\x00" * 8))
