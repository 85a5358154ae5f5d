"""Cuts a stream of bytes into protocol headers and frames (AMQP 1.0 §2.2, §2.3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .replies import MAX_FRAME_BYTES
from .values import AmqpError

_HEAD = struct.Struct(">IBBH")
_HEAD_BYTES = 8
_WORD = 4
_PROTOCOL = b"AMQP"


class ProtocolHeader(NamedTuple):
    """Eight bytes that name the protocol and its version."""

    data: bytes

    @property
    def is_sasl(self) -> bool:
        """Say whether the client wants to authenticate first (AMQP 1.0 §5.3.1)."""
        return self.data[4] == 3  # noqa: PLR2004 - the protocol id of SASL


class Frame(NamedTuple):
    """A frame's type, channel and body; the body of a keep-alive is empty."""

    frame_type: int
    channel: int
    body: bytes


class FrameReader:
    """Keeps what is not yet a whole frame."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> Iterator[ProtocolHeader | Frame]:
        """Yield what is complete. Raises AmqpError for what can not be a frame."""
        buffer = self._pending + data if self._pending else data
        start, length = 0, len(buffer)
        self._pending = b""
        while length - start >= _HEAD_BYTES:
            if buffer.startswith(_PROTOCOL, start):
                yield ProtocolHeader(buffer[start : start + _HEAD_BYTES])
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
