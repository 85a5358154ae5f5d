"""Events: the sender's message, and the message for readers.

A reader gets the sender's bytes: only the message annotations are replaced. The message for readers is
complete when the event is appended, so that a read needs no encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from servicebus_local.codec.decoding import check_list, check_map, decode, split_map
from servicebus_local.codec.encoding import encode, encoded_map, long, timestamp
from servicebus_local.codec.values import AmqpError, Encoded, Symbol
from servicebus_local.content import Section, sections

_SEQUENCE_NUMBER = encode(Symbol("x-opt-sequence-number"))
_OFFSET = encode(Symbol("x-opt-offset"))
_ENQUEUED_TIME = encode(Symbol("x-opt-enqueued-time"))
_PARTITION_KEY = "x-opt-partition-key"
#: Annotations that only the broker writes; a sender's are dropped.
_BROKER_OWNED = frozenset({"x-opt-sequence-number", "x-opt-offset", "x-opt-enqueued-time", "x-opt-publisher"})
_ANNOTATIONS_HEAD = bytes((0, 0x53, Section.MESSAGE_ANNOTATIONS))
_LISTS = frozenset({Section.HEADER, Section.PROPERTIES})
_MAPS = frozenset({Section.DELIVERY_ANNOTATIONS, Section.APPLICATION_PROPERTIES, Section.FOOTER})
#: The sections before the message annotations (AMQP 1.0 §3.2).
_FIRST = (Section.HEADER, Section.DELIVERY_ANNOTATIONS)


class Event(NamedTuple):
    """An event in a partition."""

    sequence_number: int
    offset: int
    #: When it was appended, in milliseconds since 1970 UTC.
    enqueued_ms: int
    #: The complete message for readers.
    wire: bytes


@dataclass(frozen=True, slots=True)
class EventContent:
    """An event as its sender wrote it, around the annotations."""

    before: bytes
    annotation_count: int
    annotations: bytes
    after: bytes

    def event(self, sequence_number: int, offset: int, enqueued_ms: int) -> Event:
        """Return the event at a place of a partition."""
        own = b"".join(
            (
                _SEQUENCE_NUMBER,
                long(sequence_number),
                _OFFSET,
                encode(str(offset)),
                _ENQUEUED_TIME,
                timestamp(enqueued_ms),
                self.annotations,
            )
        )
        annotations = encoded_map(3 + self.annotation_count, own)
        wire = b"".join((self.before, _ANNOTATIONS_HEAD, annotations, self.after))
        return Event(sequence_number, offset, enqueued_ms, wire)


def parse_event(message: bytes) -> tuple[EventContent, str | None]:
    """Return the event and the partition key of an encoded message. Raises AmqpError."""
    first: dict[int, bytes] = {}
    after: list[bytes] = []
    kept: list[bytes] = []
    key = None
    for code, start, value_start, end in sections(message):
        if code == Section.MESSAGE_ANNOTATIONS:
            kept, key = _annotations(message, value_start)
            continue
        _check_section(message, code, value_start, end)
        if code in _FIRST:
            first[code] = message[start:end]
        else:
            after.append(message[start:end])
    before = b"".join([first[code] for code in _FIRST if code in first])
    return EventContent(before, len(kept), b"".join(kept), b"".join(after)), key


def parse_events(envelope: bytes) -> tuple[list[EventContent], str | None]:
    """Return the events of a batch, and the partition key of the batch. Raises AmqpError."""
    contents, key = [], None
    for code, _, value_start, _ in sections(envelope):
        if code == Section.MESSAGE_ANNOTATIONS:
            _, key = _annotations(envelope, value_start)
        elif code == Section.DATA:
            message, _ = decode(envelope, value_start)
            if not isinstance(message, bytes):
                raise AmqpError("a batch's data section must be binary")
            contents.append(parse_event(message)[0])
    return contents, key


def with_delivery_annotations(wire: bytes, pairs: Sequence[tuple[str, Encoded]]) -> bytes:
    """Return an event with delivery annotations added, for a reader that requested them."""
    header, others = b"", []
    sent: list[bytes] = []
    for code, start, value_start, end in sections(wire):
        if code == Section.HEADER:
            header = wire[start:end]
        elif code == Section.DELIVERY_ANNOTATIONS:
            sent = [key + value for key, value in split_map(wire, value_start)]
        else:
            others.append(wire[start:end])
    sent += [encode(Symbol(name)) + value for name, value in pairs]
    head = bytes((0, 0x53, Section.DELIVERY_ANNOTATIONS))
    return b"".join((header, head, encoded_map(len(sent), b"".join(sent)), *others))


def _annotations(message: bytes, at: int) -> tuple[list[bytes], str | None]:
    """Return the pairs of the sender, without the broker's own, and the partition key."""
    kept: list[bytes] = []
    partition_key = None
    for key, value in split_map(message, at):
        name, _ = decode(key, 0)  # clients write a symbol or a string
        if isinstance(name, str) and name in _BROKER_OWNED:
            continue
        if name == _PARTITION_KEY:
            sent, _ = decode(value, 0)
            partition_key = sent if isinstance(sent, str) else None
        kept.append(key + value)
    return kept, partition_key


def _check_section(message: bytes, code: int, value_start: int, end: int) -> None:
    """Raise AmqpError for a section that a reader could not read."""
    if code in _LISTS:
        check_list(message, value_start, end)
    elif code in _MAPS:
        check_map(message, value_start, end)
    elif code not in (Section.DATA, Section.SEQUENCE, Section.VALUE):
        raise AmqpError(f"unknown section {code}")
