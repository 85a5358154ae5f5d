"""Reads AMQP 1.0 values (§1.6), and splits encoded ones without decoding them.

Integers lose their width, symbols become Symbol, timestamps are milliseconds since 1970, decimals stay bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

from servicebus_local.codec.values import AmqpError, Described, Encoded, Scalar, Symbol, Value

type Decoder = Callable[[bytes, int], tuple[Value, int]]

DESCRIBED, LIST0, LIST8, LIST32, MAP8, MAP32 = 0x00, 0x45, 0xC0, 0xD0, 0xC1, 0xD1
#: Errors of the decoders for malformed bytes that they do not check.
_MALFORMED = (IndexError, struct.error, UnicodeDecodeError, TypeError, RecursionError, OverflowError)
_UINT32 = struct.Struct(">I")
#: Number of bytes after a constructor, or one of these (AMQP 1.0 §1.2, figure 1.4).
_ONE_BYTE_SIZE, _FOUR_BYTE_SIZE, _NO_SIZE = -1, -4, -16
_SIZE_OF_NIBBLE = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16} | {
    0xA: _ONE_BYTE_SIZE,
    0xB: _FOUR_BYTE_SIZE,
    0xC: _ONE_BYTE_SIZE,
    0xD: _FOUR_BYTE_SIZE,
    0xE: _ONE_BYTE_SIZE,
    0xF: _FOUR_BYTE_SIZE,
}
_SIZES = [_SIZE_OF_NIBBLE.get(constructor >> 4, _NO_SIZE) for constructor in range(256)]


def decode(buffer: bytes, at: int) -> tuple[Value, int]:
    """Return the value that starts at a position, and the position after it. Raises AmqpError."""
    try:
        return _DECODERS[buffer[at]](buffer, at + 1)
    except _MALFORMED as error:
        raise AmqpError(f"malformed AMQP value at byte {at}: {error}") from error


def skip(buffer: bytes, at: int) -> int:
    """Return the position after the value that starts at a position. Raises AmqpError."""
    try:
        end = _skip(buffer, at)
    except _MALFORMED as error:
        raise AmqpError(f"malformed AMQP value at byte {at}: {error}") from error
    if end > len(buffer):
        raise AmqpError(f"the AMQP value at byte {at} ends after its data")
    return end


def first_item(buffer: bytes, at: int) -> Value:
    """Return the first item of the list at a position, None if it has none. Raises AmqpError."""
    if buffer[at] == LIST0:
        return None
    count, start = _compound_head(buffer, at, LIST8, LIST32)
    return decode(buffer, start)[0] if count else None


def split_list(buffer: bytes, at: int) -> list[Encoded]:
    """Return the encoded items of the list at a position. Raises AmqpError."""
    if buffer[at] == LIST0:
        return []
    count, start = _compound_head(buffer, at, LIST8, LIST32)
    return _items(buffer, start, count)


def split_map(buffer: bytes, at: int) -> list[tuple[Encoded, Encoded]]:
    """Return the encoded keys and values of the map at a position. Raises AmqpError."""
    count, start = _compound_head(buffer, at, MAP8, MAP32)
    items = _items(buffer, start, count)
    if count % 2 or start + sum(map(len, items)) != skip(buffer, at):
        raise AmqpError(f"the map at byte {at} is not as long as its keys and values")
    return list(zip(items[::2], items[1::2], strict=True))


def check_map(buffer: bytes, at: int, end: int) -> None:
    """Raise AmqpError unless a map, with its keys and values, reaches from one position to another."""
    if _check_items(buffer, at, end, MAP8, MAP32) % 2:
        raise AmqpError(f"the map at byte {at} has a key without a value")


def check_list(buffer: bytes, at: int, end: int) -> None:
    """Raise AmqpError unless a list, with its items, reaches from one position to another."""
    if buffer[at] != LIST0:
        _check_items(buffer, at, end, LIST8, LIST32)


def _check_items(buffer: bytes, at: int, end: int, small: int, large: int) -> int:
    count, reached = _compound_head(buffer, at, small, large)
    try:
        for _ in range(count):
            reached = _skip(buffer, reached)
    except _MALFORMED as error:
        raise AmqpError(f"malformed AMQP list or map at byte {at}: {error}") from error
    if reached != end:
        raise AmqpError(f"the list or map at byte {at} is not as long as its items")
    return count


def _items(buffer: bytes, start: int, count: int) -> list[Encoded]:
    items = []
    for _ in range(count):
        end = skip(buffer, start)
        items.append(Encoded(buffer[start:end]))
        start = end
    return items


def _compound_head(buffer: bytes, at: int, small: int, large: int) -> tuple[int, int]:
    try:
        if buffer[at] == small:
            return buffer[at + 2], at + 3
        if buffer[at] == large:
            return _UINT32.unpack_from(buffer, at + 5)[0], at + 9
    except _MALFORMED as error:
        raise AmqpError(f"malformed AMQP list or map at byte {at}: {error}") from error
    raise AmqpError(f"a list or map was expected at byte {at}, not constructor 0x{buffer[at]:02x}")


def _skip(buffer: bytes, at: int) -> int:
    constructor = buffer[at]
    at += 1
    size: int = _SIZES[constructor]
    if size >= 0:
        return at + size
    if size == _ONE_BYTE_SIZE:
        return at + 1 + buffer[at]
    if size == _FOUR_BYTE_SIZE:
        size = _UINT32.unpack_from(buffer, at)[0]
        return at + 4 + size
    if constructor == DESCRIBED:
        return _skip(buffer, _skip(buffer, at))
    raise AmqpError(f"unknown AMQP constructor 0x{constructor:02x} at byte {at - 1}")


def _unknown(buffer: bytes, at: int) -> tuple[Value, int]:
    raise AmqpError(f"unknown AMQP constructor 0x{buffer[at - 1]:02x} at byte {at - 1}")


def _constant(value: Scalar) -> Decoder:
    return lambda _buffer, at: (value, at)


def _one_byte(buffer: bytes, at: int) -> tuple[Value, int]:
    return buffer[at], at + 1


def _boolean(buffer: bytes, at: int) -> tuple[Value, int]:
    return buffer[at] == 1, at + 1


def _number(layout: str) -> Decoder:
    packed = struct.Struct(layout)
    width, unpack = packed.size, packed.unpack_from
    return lambda buffer, at: (unpack(buffer, at)[0], at + width)


def _slice(buffer: bytes, start: int, end: int) -> bytes:
    if end > len(buffer):
        raise AmqpError(f"a value ends at byte {end}, after its data")
    return buffer[start:end]


def _fixed(width: int, convert: Callable[[bytes], Scalar]) -> Decoder:
    return lambda buffer, at: (convert(_slice(buffer, at, at + width)), at + width)


def _sized8(convert: Callable[[bytes], Scalar]) -> Decoder:
    def decode_sized(buffer: bytes, at: int) -> tuple[Value, int]:
        end = at + 1 + buffer[at]
        return convert(_slice(buffer, at + 1, end)), end

    return decode_sized


def _sized32(convert: Callable[[bytes], Scalar]) -> Decoder:
    def decode_sized(buffer: bytes, at: int) -> tuple[Value, int]:
        end = at + 4 + _UINT32.unpack_from(buffer, at)[0]
        return convert(_slice(buffer, at + 4, end)), end

    return decode_sized


def _text(data: bytes) -> str:
    return data.decode()


def _symbol(data: bytes) -> Symbol:
    return Symbol(data.decode("ascii"))


def _list(buffer: bytes, at: int, count: int) -> tuple[list[Value], int]:
    values = []
    for _ in range(count):
        value, at = _DECODERS[buffer[at]](buffer, at + 1)
        values.append(value)
    return values, at


def _map(buffer: bytes, at: int, count: int) -> tuple[Value, int]:
    values, at = _list(buffer, at, count)
    pairs: dict[Scalar, Value] = {}
    for key, value in zip(values[::2], values[1::2], strict=False):
        if isinstance(key, list | dict | Described):
            raise AmqpError("a map's key must be a plain value")
        pairs[key] = value
    return pairs, at


def _array(buffer: bytes, at: int, count: int) -> tuple[Value, int]:
    if count > len(buffer):  # elements without bytes would make a huge array cheap to send
        raise AmqpError(f"an array of {count} elements is larger than its data")
    if count == 0:
        return [], at
    descriptor: Value = None
    described = buffer[at] == DESCRIBED
    if described:
        descriptor, at = _DECODERS[buffer[at + 1]](buffer, at + 2)
    decoder = _DECODERS[buffer[at]]
    at += 1
    values: list[Value] = []
    for _ in range(count):
        value, at = decoder(buffer, at)
        values.append(Described(descriptor, value) if described else value)
    return values, at


def _compound8(read: Callable[[bytes, int, int], tuple[Value, int]]) -> Decoder:
    return lambda buffer, at: (read(buffer, at + 2, buffer[at + 1])[0], at + 1 + buffer[at])


def _compound32(read: Callable[[bytes, int, int], tuple[Value, int]]) -> Decoder:
    def decode_compound(buffer: bytes, at: int) -> tuple[Value, int]:
        size, count = _UINT32.unpack_from(buffer, at)[0], _UINT32.unpack_from(buffer, at + 4)[0]
        return read(buffer, at + 8, count)[0], at + 4 + size

    return decode_compound


def _described(buffer: bytes, at: int) -> tuple[Value, int]:
    descriptor, at = _DECODERS[buffer[at]](buffer, at + 1)
    value, at = _DECODERS[buffer[at]](buffer, at + 1)
    return Described(descriptor, value), at


def _decoder_table() -> list[Decoder]:
    known: dict[int, Decoder] = {
        DESCRIBED: _described,
        0x40: _constant(None),
        0x41: _constant(True),
        0x42: _constant(False),
        0x43: _constant(0),
        0x44: _constant(0),
        LIST0: lambda _buffer, at: ([], at),
        0x50: _one_byte,
        0x51: _number(">b"),
        0x52: _one_byte,
        0x53: _one_byte,
        0x54: _number(">b"),
        0x55: _number(">b"),
        0x56: _boolean,
        0x60: _number(">H"),
        0x61: _number(">h"),
        0x70: _number(">I"),
        0x71: _number(">i"),
        0x72: _number(">f"),
        0x73: _fixed(4, lambda data: data.decode("utf-32-be")),
        0x74: _fixed(4, bytes),
        0x80: _number(">Q"),
        0x81: _number(">q"),
        0x82: _number(">d"),
        0x83: _number(">q"),
        0x84: _fixed(8, bytes),
        0x94: _fixed(16, bytes),
        0x98: _fixed(16, lambda data: UUID(bytes=data)),
        0xA0: _sized8(bytes),
        0xA1: _sized8(_text),
        0xA3: _sized8(_symbol),
        0xB0: _sized32(bytes),
        0xB1: _sized32(_text),
        0xB3: _sized32(_symbol),
        LIST8: _compound8(_list),
        LIST32: _compound32(_list),
        MAP8: _compound8(_map),
        MAP32: _compound32(_map),
        0xE0: _compound8(_array),
        0xF0: _compound32(_array),
    }
    return [known.get(constructor, _unknown) for constructor in range(256)]


_DECODERS = _decoder_table()
