"""The AMQP 1.0 types that Python lacks, as the codec reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

type Scalar = bool | int | float | str | bytes | UUID | None
type Value = Scalar | list["Value"] | dict[Scalar, "Value"] | Described
type Encodable = Scalar | Sequence["Encodable"] | Mapping[str, "Encodable"]


class AmqpError(ValueError):
    """Bytes from a peer that are not valid AMQP 1.0."""


class Symbol(str):
    """An AMQP symbol: ASCII text from a constrained domain, such as an error condition."""

    __slots__ = ()


class Encoded(bytes):
    """One encoded value, constructor included. It is written unchanged."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that says what it means (AMQP 1.0 §1.1.2)."""

    descriptor: Value
    value: Value

    def fields(self) -> list[Value]:
        """Return the fields of a composite type. Raises AmqpError for anything else."""
        if not isinstance(self.value, list):
            raise AmqpError(f"a list of fields was expected, not {type(self.value).__name__}")
        return self.value
