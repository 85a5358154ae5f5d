"""Requests to `$cbs` and `$management`, and their answers: one message each way."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from servicebus_local.codec.decoding import decode, split_list
from servicebus_local.codec.encoding import NULL, composite, encode, encode_map
from servicebus_local.codec.values import AmqpError, Encodable, Encoded, Scalar, Value
from servicebus_local.content import Section, sections

_REPLY_TO = 4


@dataclass(frozen=True, slots=True)
class Request:
    """A request message."""

    #: Encoded: the answer's correlation id must have the same type.
    message_id: Encoded
    reply_to: str | None
    properties: dict[Scalar, Value]
    body: Value
    encoded_body: bytes

    @classmethod
    def head(cls, message: bytes) -> Request:
        """Read the fields that an answer needs from a request that is malformed or cut off."""
        readable = 0
        with suppress(AmqpError):
            for _, _, _, end in sections(message):
                readable = end
        return cls.read(message[:readable])

    @classmethod
    def read(cls, message: bytes) -> Request:
        """Read a request. Raises AmqpError."""
        message_id, reply_to, body, encoded_body = NULL, None, None, b""
        properties: dict[Scalar, Value] = {}
        for code, _, value_start, _ in sections(message):
            if code == Section.PROPERTIES:
                fields = split_list(message, value_start)
                message_id = fields[0] if fields else NULL
                reply_to = decode(fields[_REPLY_TO], 0)[0] if len(fields) > _REPLY_TO else None
            elif code == Section.APPLICATION_PROPERTIES:
                sent, _ = decode(message, value_start)
                properties = sent if isinstance(sent, dict) else {}
            elif code == Section.VALUE:
                body, end = decode(message, value_start)
                encoded_body = message[value_start:end]
        reply_to = reply_to if isinstance(reply_to, str) else None
        return cls(message_id, reply_to, properties, body, encoded_body)


def answer_message(request: Request, properties: dict[str, Encodable], body: Encodable) -> bytes:
    """Return the message that answers a request."""
    described = bytes((0, 0x53))
    return b"".join(
        (
            composite(Section.PROPERTIES, [None, None, None, None, None, request.message_id]),
            described + bytes((Section.APPLICATION_PROPERTIES,)) + encode_map(properties),
            described + bytes((Section.VALUE,)) + encode(body),
        )
    )
