"""Writes frames, and splits a stream of bytes into protocol headers and frames (AMQP 1.0 §2.2, §2.3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from servicebus_local.codec.values import AmqpError

AMQP_FRAME, SASL_FRAME = 0, 1
#: Largest frame that the broker accepts, in bytes; also the largest that it sends.
MAX_FRAME_BYTES = 1 << 20
#: A keep-alive.
EMPTY_FRAME = b"\x00\x00\x00\x08\x02\x00\x00\x00"

_HEAD = struct.Struct(">IBBH")
_HEAD_BYTES = 8
_WORD = 4
_PROTOCOL = b"AMQP"


def frame(channel: int, body: bytes, frame_type: int = AMQP_FRAME) -> bytes:
    """Return a frame without an extended header."""
    return _HEAD.pack(len(body) + _HEAD_BYTES, _HEAD_BYTES // _WORD, frame_type, channel) + body


class Frame(NamedTuple):
    """A frame's type, channel and body; the body of a keep-alive is empty."""

    frame_type: int
    channel: int
    body: bytes


class FrameReader:
    """Buffers bytes until a frame is complete."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> Iterator[bytes | Frame]:
        """Yield the complete headers and frames. Raises AmqpError for bytes that can't be a frame."""
        buffer = self._pending + data if self._pending else data
        start, length = 0, len(buffer)
        self._pending = b""
        while length - start >= _HEAD_BYTES:
            if buffer.startswith(_PROTOCOL, start):
                yield buffer[start : start + _HEAD_BYTES]
                start += _HEAD_BYTES
                continue
            size, offset_words, frame_type, channel = _HEAD.unpack_from(buffer, start)
            if not _HEAD_BYTES <= offset_words * _WORD <= size <= MAX_FRAME_BYTES:
                raise AmqpError(
                    f"a frame of {size} bytes with its body at word {offset_words} is not allowed"
                )
            if length - start < size:
                break
            yield Frame(frame_type, channel, buffer[start + offset_words * _WORD : start + size])
            start += size
        self._pending = buffer[start:]
