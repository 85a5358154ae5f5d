"""The content of a message: the sections of an encoded message, split without decoding the body.

The broker keeps the bytes of every section that it does not change, so that all types stay exactly the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from servicebus_local.codec.decoding import (
    check_list,
    check_map,
    decode,
    first_item,
    skip,
    split_list,
    split_map,
)
from servicebus_local.codec.encoding import composite, encode, encoded_map
from servicebus_local.codec.values import AmqpError, Encoded, Symbol, Value
from servicebus_local.errors import ArgumentError

#: Message format of a batch: each data section holds one encoded message.
BATCH_FORMAT = 0x80013700
#: A section begins with its descriptor, which all known clients write as a one-byte ulong: 00 53 xx.
_SMALL_DESCRIPTOR = b"\x00\x53"
_VALUE_OFFSET = 3
#: Constructors of strings, short and long, and of the symbols that have the same layout.
_SYMBOL_OF_STRING = {0xA1: b"\xa3", 0xB1: b"\xb3"}
_STRING_OF_SYMBOL = {0xA3: b"\xa1", 0xB3: b"\xb1"}
_SHORT = frozenset({0xA1, 0xA3})

#: Limits of Service Bus.
_MAX_MESSAGE_ID = 128
_MAX_PROPERTIES_BYTES = 64 * 1024
_PRIORITIES = range(1 << 8)
_TIMES_TO_LIVE_MS = range(1 << 32)
#: From the beginning of the year 1 to the end of 9999: clients can't read other times.
_TIMES_MS = range(-62135596800000, 253402300800000)


class Section(IntEnum):
    """Descriptors of a message's sections (AMQP 1.0 §3.2)."""

    #: Durability, priority, time to live, delivery count.
    HEADER = 0x70
    #: Annotations for the next hop; the broker adds the lock token.
    DELIVERY_ANNOTATIONS = 0x71
    #: `x-opt-…`: the service's data about the message.
    MESSAGE_ANNOTATIONS = 0x72
    #: Message id, subject, reply-to and the like.
    PROPERTIES = 0x73
    #: The sender's own key-value pairs.
    APPLICATION_PROPERTIES = 0x74
    #: Body: bytes.
    DATA = 0x75
    #: Body: a list.
    SEQUENCE = 0x76
    #: Body: one AMQP value.
    VALUE = 0x77
    #: After the body.
    FOOTER = 0x78


_PROPERTIES_HEAD = _SMALL_DESCRIPTOR + bytes((Section.PROPERTIES,))
_APPLICATION_PROPERTIES_HEAD = _SMALL_DESCRIPTOR + bytes((Section.APPLICATION_PROPERTIES,))
_FOOTER_HEAD = _SMALL_DESCRIPTOR + bytes((Section.FOOTER,))
_BODY_SECTIONS = frozenset({Section.DATA, Section.SEQUENCE, Section.VALUE})


def _symbol_key(name: str) -> bytes:
    return encode(Symbol(name))


_SCHEDULED = _symbol_key("x-opt-scheduled-enqueue-time")
#: Annotations that only the broker writes; a sender's are dropped.
_BROKER_OWNED = frozenset(
    _symbol_key(f"x-opt-{name}")
    for name in (
        "enqueued-time",
        "sequence-number",
        "enqueue-sequence-number",
        "locked-until",
        "message-state",
        "lock-token",
        "deadletter-source",
    )
)


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """The key-value pairs of a map, encoded one after the other."""

    count: int = 0
    data: bytes = b""

    @classmethod
    def of_map(cls, buffer: bytes, at: int = 0) -> EncodedPairs:
        """Read the pairs of the map at a position. Raises AmqpError."""
        pairs = split_map(buffer, at)
        return cls(len(pairs), b"".join([key + value for key, value in pairs]))

    def as_map(self, extra_count: int = 0, extra: bytes = b"") -> Encoded:
        """Return an encoded map of these pairs and extra ones."""
        return encoded_map(self.count + extra_count, self.data + extra)


@dataclass(frozen=True, slots=True)
class Content:
    """A message as its sender wrote it. Times in milliseconds, times of day since 1970 UTC."""

    message_id: str
    time_to_live_ms: int | None
    durable: bool | None
    priority: int | None
    first_acquirer: bool | None
    delivery_annotations: EncodedPairs
    annotations: EncodedPairs
    #: Encoded sections, each with its descriptor; empty when absent.
    properties: bytes
    application_properties: bytes
    #: The body's sections and the footer.
    body: bytes
    #: Time at which it is enqueued; None: at once.
    scheduled_ms: int | None = None

    @property
    def size(self) -> int:
        """Bytes that count against the queue's quota."""
        return self._properties_size + len(self.delivery_annotations.data) + len(self.body)

    @property
    def _properties_size(self) -> int:
        return len(self.properties) + len(self.application_properties) + len(self.annotations.data)

    def with_application_properties(self, extra: Mapping[bytes, bytes]) -> Content:
        """Return this content with encoded properties added or replaced; others keep their exact bytes."""
        section = self.application_properties
        kept = split_map(section, _VALUE_OFFSET) if section else []
        pairs = {bytes(key): bytes(value) for key, value in kept} | dict(extra)
        data = b"".join([key + value for key, value in pairs.items()])
        section = _APPLICATION_PROPERTIES_HEAD + encoded_map(len(pairs), data)
        return replace(self, application_properties=section)

    def check_limits(self) -> None:
        """Raise ArgumentError for a message above the limits of Service Bus."""
        if len(self.message_id) > _MAX_MESSAGE_ID:
            raise ArgumentError(f"A message id may have {_MAX_MESSAGE_ID} characters.")
        if self._properties_size > _MAX_PROPERTIES_BYTES:
            raise ArgumentError(
                f"The properties of a message may have {_MAX_PROPERTIES_BYTES} bytes, "
                f"not {self._properties_size}."
            )


def property_pairs(encoded: bytes) -> dict[bytes, bytes]:
    """Return the pairs of a map as application properties: their keys are strings. Raises AmqpError."""
    return {_retyped(key, _STRING_OF_SYMBOL): bytes(value) for key, value in split_map(encoded, 0)}


def sections(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield each section's descriptor, start, start of its value, and end, in any order.

    The azure-servicebus client writes the delivery annotations last, after the footer. Raises AmqpError.
    """
    start = 0
    while start < len(message):
        if message[start] != 0:
            raise AmqpError(f"a section was expected at byte {start}")
        if message.startswith(_SMALL_DESCRIPTOR, start) and start + _VALUE_OFFSET < len(message):
            code: Value = message[start + 2]
            value_start = start + _VALUE_OFFSET
        else:
            code, value_start = decode(message, start + 1)
        end = skip(message, value_start)
        if not isinstance(code, int):
            raise AmqpError(f"unknown section {code!r} at byte {start}")
        yield code, start, value_start, end
        start = end


def parse_content(message: bytes) -> Content:
    """Split an encoded message into its content. Raises AmqpError, and ArgumentError for limits."""
    header: list[Value] = []
    annotations = delivery_annotations = EncodedPairs()
    scheduled_ms = None
    properties = application_properties = footer = b""
    body = []
    for code, start, value_start, end in sections(message):
        if code in _BODY_SECTIONS:
            body.append(message[start:end])
        elif code == Section.HEADER:
            header = _list_at(message, value_start)
        elif code == Section.DELIVERY_ANNOTATIONS:
            delivery_annotations, _ = _sender_annotations(message, value_start)
        elif code == Section.MESSAGE_ANNOTATIONS:
            annotations, scheduled_ms = _sender_annotations(message, value_start)
        elif code == Section.PROPERTIES:
            check_list(message, value_start, end)
            properties = _PROPERTIES_HEAD + message[value_start:end]
        elif code == Section.APPLICATION_PROPERTIES:
            check_map(message, value_start, end)
            application_properties = _APPLICATION_PROPERTIES_HEAD + message[value_start:end]
        elif code == Section.FOOTER:
            footer = _footer(message, value_start)
    message_id, properties = _identified(properties)
    durable, priority, time_to_live_ms, first_acquirer = (header + [None] * 4)[:4]
    content = Content(
        message_id=message_id,
        time_to_live_ms=_optional_int(time_to_live_ms, _TIMES_TO_LIVE_MS),
        durable=None if durable is None else bool(durable),
        priority=_optional_int(priority, _PRIORITIES),
        first_acquirer=None if first_acquirer is None else bool(first_acquirer),
        delivery_annotations=delivery_annotations,
        annotations=annotations,
        properties=properties,
        application_properties=application_properties,
        body=b"".join(body) + footer,
        scheduled_ms=scheduled_ms,
    )
    content.check_limits()
    return content


def parse_batch(envelope: bytes) -> list[Content]:
    """Return the messages of a batch: each data section holds one encoded message. Raises AmqpError."""
    messages = []
    for code, _, value_start, _ in sections(envelope):
        if code == Section.DATA:
            message, _ = decode(envelope, value_start)
            if not isinstance(message, bytes):
                raise AmqpError("a batch's data section must be binary")
            messages.append(parse_content(message))
    return messages


def _list_at(message: bytes, at: int) -> list[Value]:
    value, _ = decode(message, at)
    if not isinstance(value, list):
        raise AmqpError("a message's header must be a list")
    return value


def _optional_int(value: Value, allowed: range) -> int | None:
    if value is None or (isinstance(value, int) and value in allowed):
        return value
    raise AmqpError(f"a whole number from {allowed[0]} to {allowed[-1]} was expected, not {value!r}")


def _sender_annotations(message: bytes, at: int) -> tuple[EncodedPairs, int | None]:
    kept, scheduled_ms = [], None
    for sent_key, value in split_map(message, at):
        key = _retyped(sent_key, _SYMBOL_OF_STRING)
        if key in _BROKER_OWNED:
            continue
        if key == _SCHEDULED:
            scheduled_ms = _optional_int(decode(value, 0)[0], _TIMES_MS)
        kept.append(key + value)
    return EncodedPairs(len(kept), b"".join(kept)), scheduled_ms


def _footer(message: bytes, at: int) -> bytes:
    pairs = [_retyped(key, _SYMBOL_OF_STRING) + value for key, value in split_map(message, at)]
    return _FOOTER_HEAD + encoded_map(len(pairs), b"".join(pairs))


def _retyped(key: bytes, constructors: Mapping[int, bytes]) -> bytes:
    """Return a key as a symbol or a string: clients send either, and read only the standard's type."""
    constructor = constructors.get(key[0])
    text = key[2:] if key[0] in _SHORT else key[5:]
    # A symbol is ASCII: another string stays a string.
    return constructor + key[1:] if constructor and text.isascii() else bytes(key)


def _identified(properties: bytes) -> tuple[str, bytes]:
    """Return a message's id and its properties; a message without an id gets one, as in Service Bus."""
    sent_id = first_item(properties, _VALUE_OFFSET) if properties else None
    if sent_id is not None:
        return str(sent_id), properties
    new_id = uuid.uuid4().hex
    others = split_list(properties, _VALUE_OFFSET)[1:] if properties else []
    return new_id, composite(Section.PROPERTIES, [new_id, *others])
