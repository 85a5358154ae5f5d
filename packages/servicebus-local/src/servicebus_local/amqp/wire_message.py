"""Writes a stored message for a receiver: new header and annotations, everything else unchanged."""

from __future__ import annotations

from servicebus_local.broker.message import Lock, StoredMessage
from servicebus_local.codec.encoding import composite, encode, int32, long, timestamp, ubyte, uint
from servicebus_local.codec.values import Encoded, Symbol
from servicebus_local.content import Section

_ENQUEUED_TIME = encode(Symbol("x-opt-enqueued-time"))
_SEQUENCE_NUMBER = encode(Symbol("x-opt-sequence-number"))
_LOCKED_UNTIL = encode(Symbol("x-opt-locked-until"))
_STATE = encode(Symbol("x-opt-message-state"))
_LOCK_TOKEN = encode(Symbol("x-opt-lock-token"))
_MAX_UINT = (1 << 32) - 1
_ANNOTATIONS_HEAD = bytes((0, 0x53, Section.MESSAGE_ANNOTATIONS))
_DELIVERY_ANNOTATIONS_HEAD = bytes((0, 0x53, Section.DELIVERY_ANNOTATIONS))


def wire_message(message: StoredMessage, lock: Lock | None = None) -> bytes:
    """Return a message as its receiver gets it, with the receiver's lock, if any."""
    content = message.content
    annotations = [
        _ENQUEUED_TIME + timestamp(message.enqueued_ms),
        _SEQUENCE_NUMBER + long(message.sequence_number),
    ]
    if lock is not None:
        annotations.append(_LOCKED_UNTIL + timestamp(lock.until_ms))
    if message.state:  # absent for an active message
        annotations.append(_STATE + int32(message.state))
    return b"".join(
        (
            _header(message),
            _delivery_annotations(message, lock),
            _ANNOTATIONS_HEAD,
            content.annotations.as_map(len(annotations), b"".join(annotations)),
            content.properties,
            content.application_properties,
            content.body,
        )
    )


def _delivery_annotations(message: StoredMessage, lock: Lock | None) -> bytes:
    sent = message.content.delivery_annotations
    if lock is not None:
        return _DELIVERY_ANNOTATIONS_HEAD + sent.as_map(1, _LOCK_TOKEN + encode(lock.token))
    return _DELIVERY_ANNOTATIONS_HEAD + sent.as_map() if sent.count else b""


def _time_to_live(milliseconds: int | None) -> Encoded | None:
    # A queue's own time to live may exceed the field's maximum.
    return None if milliseconds is None or milliseconds > _MAX_UINT else uint(milliseconds)


def _header(message: StoredMessage) -> bytes:
    content = message.content
    return composite(
        Section.HEADER,
        [
            content.durable,
            None if content.priority is None else ubyte(content.priority),
            _time_to_live(content.time_to_live_ms),
            content.first_acquirer,
            uint(message.delivery_count),
        ],
    )
