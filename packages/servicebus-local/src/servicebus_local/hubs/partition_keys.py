"""The partition of a partition key.

Bob Jenkins' lookup3 over the key, as Event Hubs and the client for .NET do it (`PartitionResolver`).
"""

from __future__ import annotations

import struct

_UINT32 = 0xFFFFFFFF
_SEED = 0xDEADBEEF
_BLOCK_BYTES = 12
_WORDS = struct.Struct("<III")
_MIX_ROTATIONS = (4, 6, 8, 16, 19, 4)
_FINAL_ROTATIONS = (14, 11, 25, 16, 4, 14, 24)


def partition_of(key: str, partition_count: int) -> int:
    """Return the number of the partition that holds all events with this key."""
    return abs(key_hash(key)) % partition_count  # .NET's remainder, without its sign


def key_hash(key: str) -> int:
    """Return the signed 16-bit hash of a key."""
    data = key.encode()
    a = b = c = (_SEED + len(data)) & _UINT32
    while len(data) > _BLOCK_BYTES:
        first, second, third = _WORDS.unpack_from(data)
        a, b, c = _mixed((a + first) & _UINT32, (b + second) & _UINT32, (c + third) & _UINT32)
        data = data[_BLOCK_BYTES:]
    if data:
        first, second, third = _WORDS.unpack(data.ljust(_BLOCK_BYTES, b"\0"))
        b, c = _final((a + first) & _UINT32, (b + second) & _UINT32, (c + third) & _UINT32)
    low = (b ^ c) & 0xFFFF
    return low - 0x10000 if low & 0x8000 else low


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for rotation in _MIX_ROTATIONS:
        a = ((a - c) & _UINT32) ^ _rotated(c, rotation)
        c = (c + b) & _UINT32
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> tuple[int, int]:
    for rotation in _FINAL_ROTATIONS:
        c = ((c ^ b) - _rotated(b, rotation)) & _UINT32
        a, b, c = b, c, a
    # After seven rounds the names are rotated by one place.
    return a, b


def _rotated(value: int, count: int) -> int:
    return ((value << count) | (value >> (32 - count))) & _UINT32
