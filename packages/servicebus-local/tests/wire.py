"""A client that sends and reads single frames, for details that the SDKs' clients hide."""

from __future__ import annotations

import socket
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from servicebus_local.amqp.frames import SASL_FRAME, Frame, FrameReader, frame
from servicebus_local.amqp.performatives import Performative
from servicebus_local.amqp.requests import Request, answer_message
from servicebus_local.codec.decoding import decode
from servicebus_local.codec.encoding import TRUE, composite, encode, ubyte, uint, ushort
from servicebus_local.codec.values import AmqpError, Encodable, Encoded, Value
from servicebus_local.content import Section, sections

CHANNEL = 1
_SASL_HEADER, _AMQP_HEADER = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
_SOURCE, _TARGET = 0x28, 0x29


@dataclass(frozen=True)
class Seen:
    """A performative from the broker, with the payload after it in its frame."""

    code: Value
    fields: list[Value]
    payload: bytes

    @property
    def tag(self) -> Value:
        """A transfer's delivery tag."""
        return self.fields[2]


def performative(code: int, *fields: Encodable, payload: bytes = b"", channel: int = CHANNEL) -> bytes:
    """Return a frame."""
    return frame(channel, composite(code, fields) + payload)


def data_message(body: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """Return a message with a body and other encoded sections."""
    return before + section(Section.DATA, body) + after


def section(code: Section, value: Encodable) -> bytes:
    """Return a section of a message."""
    return b"\x00\x53" + bytes((code,)) + encode(value)


def read_sections(message: bytes) -> dict[int, Any]:
    """Return a message's decoded sections."""
    return {code: decode(message, value_start)[0] for code, _, value_start, _ in sections(message)}


def transfer(number: int, payload: bytes, handle: int = 0) -> bytes:
    """Return the frame that sends a message."""
    tag = number.to_bytes(4, "big")
    fields: list[Encodable] = [uint(handle), uint(number), tag, uint(0), False, False]
    return performative(Performative.TRANSFER, *fields, payload=payload)


def credit(count: int, handle: int = 0, window: int = 5000) -> bytes:
    """Return the frame that requests messages."""
    session = [uint(0x40000000), uint(window), uint(0), uint(window)]
    return performative(Performative.FLOW, *session, uint(handle), uint(0), uint(count))


def verdict(first: Value, state: Encoded | None, *, settled: bool = False) -> bytes:
    """Return the frame that settles a delivery."""
    assert isinstance(first, int)
    return performative(Performative.DISPOSITION, TRUE, uint(first), None, settled, state)


def detach(handle: int = 0) -> bytes:
    """Return the frame that detaches a link."""
    return performative(Performative.DETACH, uint(handle), True)


def attach_receiver(
    address: str, handle: int = 0, *, deletes: bool = False, properties: Mapping[str, str] | None = None
) -> bytes:
    """Return the frame that attaches a receiver."""
    modes = [ubyte(1 if deletes else 0), ubyte(0 if deletes else 1)]
    ends = [composite(_SOURCE, [address]), composite(_TARGET, ["here"])]
    rest = [None] * 6
    fields: list[Encodable] = [f"in-{handle}-{address}", uint(handle), True, *modes, *ends, *rest, properties]
    return performative(Performative.ATTACH, *fields)


def attach_sender(address: str, handle: int = 0, target: Encoded | None = None) -> bytes:
    """Return the frame that attaches a sender."""
    ends = [composite(_SOURCE, ["here"]), target or composite(_TARGET, [address])]
    fields: list[Encodable] = [f"out-{handle}-{address}", uint(handle), False, ubyte(0), ubyte(0), *ends]
    return performative(Performative.ATTACH, *fields, None, False, uint(0))


class WireClient:
    """A connection with one session; as a context manager it is cut at the end."""

    def __init__(
        self, port: int, *, product: str = "", receive_buffer: int = 0, greeting: bytes = b""
    ) -> None:
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(60)
        self._socket.connect(("127.0.0.1", port))
        self._reader = FrameReader()
        self._seen: deque[Seen] = deque()
        #: Frames without a body so far.
        self.keep_alives = 0
        mechanism = frame(0, composite(Performative.SASL_INIT, [None]), SASL_FRAME)
        opening: list[Encodable] = [uuid.uuid4().hex, None, uint(1 << 20), ushort(100)]
        properties = {"product": product} if product else None
        windows = [uint(0), uint(5000), uint(5000)]
        self.send(
            greeting + _SASL_HEADER + mechanism + _AMQP_HEADER,
            performative(Performative.OPEN, *opening, *[None] * 5, properties, channel=0),
            performative(Performative.BEGIN, None, *windows),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, *frames: bytes) -> None:
        """Send frames in one write."""
        self._socket.sendall(b"".join(frames))

    def next(self) -> Seen:
        """Return the next performative. Raises EOFError when the broker has ended the connection."""
        while not self._seen:
            data = self._socket.recv(1 << 18)
            if not data:
                raise EOFError
            for received in self._reader.feed(data):
                if isinstance(received, Frame) and received.body:
                    self._seen.append(_read(received.body))
                else:
                    self.keep_alives += isinstance(received, Frame)
        return self._seen.popleft()

    def until(self, code: Performative) -> Seen:
        """Return the next performative of a kind, and forget those before it."""
        while (seen := self.next()).code != code:
            pass
        return seen

    def transfers_until(self, code: Performative) -> list[Seen]:
        """Return the transfers that come before a performative of another kind."""
        transfers: list[Seen] = []
        while (seen := self.next()).code != code:
            if seen.code == Performative.TRANSFER:
                transfers.append(seen)
        return transfers

    @staticmethod
    def question(address: str, operation: str, arguments: Encodable) -> bytes:
        """Return the frames that ask a management node: the sender's handle is 8, the receiver's 9."""
        node = f"{address}/$management"
        properties: dict[str, Encodable] = {"operation": f"com.microsoft:{operation}"}
        request = Request(Encoded(encode("1")), None, {}, None, b"")
        ends = attach_sender(node, 8) + attach_receiver(node, 9) + credit(1, 9)
        return ends + transfer(900, answer_message(request, properties, arguments), 8)

    def request(self, address: str, operation: str, arguments: Encodable) -> tuple[int, Any]:
        """Send one request to a management node, and return the status and the body of the answer."""
        self.send(self.question(address, operation, arguments))
        answer = read_sections(self.until(Performative.TRANSFER).payload)
        self.send(detach(8), detach(9))
        return answer[Section.APPLICATION_PROPERTIES]["statusCode"], answer[Section.VALUE]


def _read(body: bytes) -> Seen:
    code, at = decode(body, 1)
    fields, end = decode(body, at)
    if not isinstance(fields, list):
        raise AmqpError("not a performative")
    return Seen(code, fields, body[end:])
