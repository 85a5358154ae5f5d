"""The performatives that a client sends (AMQP 1.0 §2.7), read from their positional fields.

Only the fields that the broker uses are read. Absent fields at the end read as null (§1.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from servicebus_local.codec.decoding import skip, split_list
from servicebus_local.codec.encoding import NULL
from servicebus_local.codec.values import AmqpError, Described, Encoded, Scalar, Value

SESSION_FILTER = "com.microsoft:session-filter"
SELECTOR_FILTER = "apache.org:selector-filter:string"
#: Sender and receiver settle modes that matter here (AMQP 1.0 §2.8.2, §2.8.3).
SENDER_SETTLES = 1
_MIXED = 2
_FILTER_FIELD = 7
_COORDINATOR = 0x30
_DESIRED_CAPABILITIES_FIELD, _PROPERTIES_FIELD = 12, 13


class Performative(IntEnum):
    """Descriptors of frame bodies, BEGIN and END of sessions, ATTACH and DETACH of links, and of values."""

    OPEN = 0x10
    BEGIN = 0x11
    ATTACH = 0x12
    #: Credit and windows.
    FLOW = 0x13
    #: A message, or a part of one.
    TRANSFER = 0x14
    #: Outcomes of deliveries.
    DISPOSITION = 0x15
    DETACH = 0x16
    END = 0x17
    CLOSE = 0x18
    ERROR = 0x1D
    #: Outcome: processed.
    ACCEPTED = 0x24
    #: Outcome: can never be processed.
    REJECTED = 0x25
    #: Outcome: not processed.
    RELEASED = 0x26
    #: Outcome: processing failed, or was deferred.
    MODIFIED = 0x27
    SASL_MECHANISMS = 0x40
    SASL_INIT = 0x41
    SASL_OUTCOME = 0x44


class Fields:
    """Typed reading of positional fields. Each method raises AmqpError for a value of another type."""

    __slots__ = ("_values",)

    def __init__(self, values: list[Value]) -> None:
        self._values = values

    def value(self, index: int) -> Value:
        """Return a field unchanged, or None."""
        return self._values[index] if index < len(self._values) else None

    def optional_number(self, index: int) -> int | None:
        """Return a whole number, or None."""
        value = self.value(index)
        if value is None or isinstance(value, int):
            return value
        raise AmqpError(f"field {index} must be a number, not {value!r}")

    def number(self, index: int, default: int | None = None) -> int:
        """Return a whole number; without a default it is required."""
        value = self.optional_number(index)
        if value is not None:
            return value
        if default is None:
            raise AmqpError(f"field {index} is missing")
        return default

    def text(self, index: int) -> str:
        """Return a string, which is required."""
        value = self.value(index)
        if isinstance(value, str):
            return value
        raise AmqpError(f"field {index} must be a string, not {value!r}")

    def described(self, index: int) -> Described | None:
        """Return a described value, or None."""
        value = self.value(index)
        if value is None or isinstance(value, Described):
            return value
        raise AmqpError(f"field {index} must be a described type, not {value!r}")


def described_list(encoded: bytes) -> list[Encoded]:
    """Return the encoded items of a list with a descriptor. Raises AmqpError."""
    return split_list(encoded, skip(encoded, 1))


@dataclass(frozen=True, slots=True)
class Terminus:
    """Source or target of a link."""

    address: str | None
    wants_session: bool
    #: It coordinates transactions (AMQP 1.0 §4.5.1): it has no address.
    is_coordinator: bool
    #: Expression that selects the client's messages.
    selector: str | None = None

    @classmethod
    def read(cls, described: Described | None) -> Terminus:
        """Read a source or target; an absent one has no address."""
        fields = Fields(described.fields() if described else [])
        address, filters = fields.value(0), fields.value(_FILTER_FIELD)
        wants_session = isinstance(filters, dict) and SESSION_FILTER in filters
        is_coordinator = described is not None and described.descriptor == _COORDINATOR
        return cls(
            address if isinstance(address, str) else None,
            wants_session,
            is_coordinator,
            _selector(filters.get(SELECTOR_FILTER)) if isinstance(filters, dict) else None,
        )


def _selector(filtered: Value) -> str | None:
    """Return the text of a selector with any descriptor. Raises AmqpError."""
    text = filtered.value if isinstance(filtered, Described) else filtered
    if text is not None and not isinstance(text, str):
        raise AmqpError(f"a selector must be a string, not {text!r}")
    return text


@dataclass(frozen=True, slots=True)
class Attach:
    """A client's request for a link."""

    name: str
    handle: int
    client_receives: bool
    sender_settle_mode: int
    receiver_settle_mode: int
    source: Terminus
    target: Terminus
    #: Source and target as sent: the client drops a link if the answer does not repeat them.
    source_bytes: Encoded
    target_bytes: Encoded
    #: Extensions of the protocol that the client requests, and its options for the link.
    desired_capabilities: tuple[str, ...] = ()
    properties: Mapping[Scalar, Value] = field(default_factory=dict)

    @classmethod
    def read(cls, fields: Fields, body: bytes, at: int) -> Attach:
        """Read an attach whose list of fields starts at a position of a frame's body."""
        encoded = split_list(body, at) + [NULL] * 7
        properties = fields.value(_PROPERTIES_FIELD)
        return cls(
            name=fields.text(0),
            handle=fields.number(1),
            client_receives=bool(fields.value(2)),
            sender_settle_mode=fields.number(3, _MIXED),
            receiver_settle_mode=fields.number(4, 0),
            source=Terminus.read(fields.described(5)),
            target=Terminus.read(fields.described(6)),
            source_bytes=encoded[5],
            target_bytes=encoded[6],
            desired_capabilities=_symbols(fields.value(_DESIRED_CAPABILITIES_FIELD)),
            properties=properties if isinstance(properties, dict) else {},
        )


def _symbols(value: Value) -> tuple[str, ...]:
    """Return the symbols of a value that is one symbol or an array of symbols."""
    values = value if isinstance(value, list) else [value]
    return tuple(each for each in values if isinstance(each, str))


@dataclass(frozen=True, slots=True)
class Flow:
    """Room in the client's session window, and credit on a link."""

    next_incoming_id: int | None
    incoming_window: int
    #: None: the flow concerns only the session.
    handle: int | None
    delivery_count: int
    link_credit: int
    drain: bool
    echo: bool

    @classmethod
    def read(cls, fields: Fields) -> Flow:
        """Read a flow."""
        return cls(
            next_incoming_id=fields.optional_number(0),
            incoming_window=fields.number(1),
            handle=fields.optional_number(4),
            delivery_count=fields.number(5, 0),
            link_credit=fields.number(6, 0),
            drain=bool(fields.value(8)),
            echo=bool(fields.value(9)),
        )


@dataclass(frozen=True, slots=True)
class Transfer:
    """A frame of a message that the client sends. Only a delivery's first frame has its id."""

    handle: int
    delivery_id: int | None
    message_format: int
    settled: bool
    more: bool
    aborted: bool

    @classmethod
    def read(cls, fields: Fields) -> Transfer:
        """Read a transfer; its payload follows the performative."""
        return cls(
            handle=fields.number(0),
            delivery_id=fields.optional_number(1),
            message_format=fields.number(3, 0),
            settled=bool(fields.value(4)),
            more=bool(fields.value(5)),
            aborted=bool(fields.value(9)),
        )


@dataclass(frozen=True, slots=True)
class Disposition:
    """The client's outcome for a range of deliveries."""

    from_receiver: bool
    first: int
    last: int
    settled: bool
    state: Described | None
    #: The frame's body, and where its list of fields starts.
    body: bytes = field(repr=False)
    at: int

    @classmethod
    def read(cls, fields: Fields, body: bytes, at: int) -> Disposition:
        """Read a disposition; without a last id it concerns one delivery."""
        first = fields.number(1)
        return cls(
            from_receiver=bool(fields.value(0)),
            first=first,
            last=fields.number(2, first),
            settled=bool(fields.value(3)),
            state=fields.described(4),
            body=body,
            at=at,
        )

    def encoded_state(self) -> list[Encoded]:
        """Return the encoded fields of the state, which is there."""
        return described_list(split_list(self.body, self.at)[4])
