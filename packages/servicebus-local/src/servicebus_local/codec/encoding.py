"""Writes AMQP 1.0 values (§1.6), and composites, in the shapes the Service Bus client expects.

A plain int is written as a long; each other integer type has a function of its name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast
from uuid import UUID

from servicebus_local.codec.values import Encodable, Encoded, Symbol

NULL, TRUE, FALSE = Encoded(b"\x40"), Encoded(b"\x41"), Encoded(b"\x42")

_UINT16, _UINT32, _UINT64 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q")
_INT8, _INT32, _INT64 = struct.Struct(">b"), struct.Struct(">i"), struct.Struct(">q")
_BYTE_VALUES = 256
_SMALL_INTEGERS = range(-128, 128)
#: A small list or map counts bytes and items in one byte each; the count is one of the bytes.
_SMALL_COMPOUND_BYTES = 254


def encode(value: Encodable) -> bytes:
    """Return one value with its constructor. Raises KeyError for a type that AMQP lacks."""
    return _ENCODERS[type(value)](value)


def ubyte(value: int) -> Encoded:
    """Return an unsigned 8-bit integer."""
    return Encoded((0x50, value))


def ushort(value: int) -> Encoded:
    """Return an unsigned 16-bit integer."""
    return Encoded(b"\x60" + _UINT16.pack(value))


def uint(value: int) -> Encoded:
    """Return an unsigned 32-bit integer in its shortest form."""
    if value == 0:
        return Encoded(b"\x43")
    return Encoded((0x52, value)) if value < _BYTE_VALUES else Encoded(b"\x70" + _UINT32.pack(value))


def ulong(value: int) -> Encoded:
    """Return an unsigned 64-bit integer in its shortest form."""
    if value == 0:
        return Encoded(b"\x44")
    return Encoded((0x53, value)) if value < _BYTE_VALUES else Encoded(b"\x80" + _UINT64.pack(value))


def int32(value: int) -> Encoded:
    """Return a signed 32-bit integer in its shortest form."""
    if value in _SMALL_INTEGERS:
        return Encoded(b"\x54" + _INT8.pack(value))
    return Encoded(b"\x71" + _INT32.pack(value))


def long(value: int) -> Encoded:
    """Return a signed 64-bit integer in its long form."""
    return Encoded(b"\x81" + _INT64.pack(value))


def timestamp(milliseconds: int) -> Encoded:
    """Return a time, given in milliseconds since 1970 UTC."""
    return Encoded(b"\x83" + _INT64.pack(milliseconds))


def long_array(values: Iterable[int]) -> Encoded:
    """Return an array of signed 64-bit integers."""
    return _array(0x81, [_INT64.pack(value) for value in values])


def timestamp_array(values: Iterable[int]) -> Encoded:
    """Return an array of times, given in milliseconds since 1970 UTC."""
    return _array(0x83, [_INT64.pack(value) for value in values])


def symbol_array(names: Iterable[str]) -> Encoded:
    """Return an array of symbols."""
    return _array(0xB3, [_UINT32.pack(len(name)) + name.encode("ascii") for name in names])


def string_array(texts: Iterable[str]) -> Encoded:
    """Return an array of strings."""
    encoded = [text.encode() for text in texts]
    return _array(0xB1, [_UINT32.pack(len(each)) + each for each in encoded])


def encode_list(items: Sequence[Encodable]) -> Encoded:
    """Return a list of any values."""
    if not items:
        return Encoded(b"\x45")
    return _compound(0xC0, 0xD0, len(items), b"".join([encode(item) for item in items]))


def encode_map(pairs: Mapping[str, Encodable]) -> Encoded:
    """Return a map with string or symbol keys."""
    body = b"".join([encode(key) + encode(value) for key, value in pairs.items()])
    return encoded_map(len(pairs), body)


def encoded_map(pair_count: int, pairs: bytes) -> Encoded:
    """Return a map of keys and values that are already encoded."""
    return _compound(0xC1, 0xD1, 2 * pair_count, pairs)


def composite(code: int, fields: Sequence[Encodable]) -> Encoded:
    """Return a described list. The client skips to the third byte: the descriptor must be a smallulong."""
    return Encoded(b"\x00\x53" + bytes((code,)) + encode_list(fields))


def _array(constructor: int, elements: list[bytes]) -> Encoded:
    body = bytes((constructor,)) + b"".join(elements)
    return Encoded(b"\xf0" + _UINT32.pack(len(body) + 4) + _UINT32.pack(len(elements)) + body)


def _compound(small: int, large: int, count: int, body: bytes) -> Encoded:
    size = len(body)
    if size < _SMALL_COMPOUND_BYTES and count < _BYTE_VALUES:
        return Encoded(bytes((small, size + 1, count)) + body)
    return Encoded(bytes((large,)) + _UINT32.pack(size + 4) + _UINT32.pack(count) + body)


def _sized(small: int, large: int, data: bytes) -> bytes:
    if len(data) < _BYTE_VALUES:
        return bytes((small, len(data))) + data
    return bytes((large,)) + _UINT32.pack(len(data)) + data


_ENCODERS = cast(
    "dict[type, Callable[[Encodable], bytes]]",
    {
        type(None): lambda _value: NULL,
        bool: lambda value: TRUE if value else FALSE,
        int: long,
        float: lambda value: b"\x82" + struct.pack(">d", value),
        str: lambda value: _sized(0xA1, 0xB1, value.encode()),
        Symbol: lambda value: _sized(0xA3, 0xB3, value.encode("ascii")),
        bytes: lambda value: _sized(0xA0, 0xB0, value),
        Encoded: lambda value: value,
        UUID: lambda value: b"\x98" + value.bytes,
        list: encode_list,
        dict: encode_map,
    },
)
