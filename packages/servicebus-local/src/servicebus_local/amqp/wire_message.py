"""Writes a stored message for a receiver: new header and annotations, everything else unchanged."""

from __future__ import annotations

from servicebus_local.broker.message import StoredMessage
from servicebus_local.codec.encoding import composite, encode, int32, long, timestamp, ubyte, uint
from servicebus_local.codec.values import Symbol
from servicebus_local.content import Section

_ENQUEUED_TIME = encode(Symbol("x-opt-enqueued-time"))
_SEQUENCE_NUMBER = encode(Symbol("x-opt-sequence-number"))
_ENQUEUED_SEQUENCE_NUMBER = encode(Symbol("x-opt-enqueue-sequence-number"))
_LOCKED_UNTIL = encode(Symbol("x-opt-locked-until"))
_STATE = encode(Symbol("x-opt-message-state"))
_DEAD_LETTER_SOURCE = encode(Symbol("x-opt-deadletter-source"))
_ANNOTATIONS_HEAD = bytes((0, 0x53, Section.MESSAGE_ANNOTATIONS))


def wire_message(message: StoredMessage, locked_until_ms: int | None = None) -> bytes:
    """Return a message as a receiver gets it, with the end of its lock (milliseconds since 1970)."""
    content = message.content
    annotations = [
        _ENQUEUED_TIME + timestamp(message.enqueued_ms),
        _SEQUENCE_NUMBER + long(message.sequence_number),
        _ENQUEUED_SEQUENCE_NUMBER + long(message.enqueued_sequence_number),
    ]
    if locked_until_ms is not None:
        annotations.append(_LOCKED_UNTIL + timestamp(locked_until_ms))
    if message.state:  # absent for an active message
        annotations.append(_STATE + int32(message.state))
    if message.dead_letter_source:
        annotations.append(_DEAD_LETTER_SOURCE + encode(message.dead_letter_source))
    return b"".join(
        (
            _header(message),
            _ANNOTATIONS_HEAD,
            content.annotations.as_map(len(annotations), b"".join(annotations)),
            content.properties,
            content.application_properties,
            content.body,
        )
    )


def _header(message: StoredMessage) -> bytes:
    content = message.content
    return composite(
        Section.HEADER,
        [
            content.durable,
            None if content.priority is None else ubyte(content.priority),
            None if content.time_to_live_ms is None else uint(content.time_to_live_ms),
            None,
            uint(message.delivery_count),
        ],
    )
