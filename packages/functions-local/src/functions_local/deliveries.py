"""The common form of messages and events as a function's input: body and metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from functions_local.protos import TypedData


@dataclass(frozen=True, slots=True)
class Delivery:
    """The input of one invocation: the body or bodies, and the metadata."""

    body: TypedData
    metadata: Mapping[str, TypedData]


def plain_properties(properties: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Convert application properties to JSON values."""
    return {plain(name): plain(value) for name, value in (properties or {}).items()}


def plain(value: Any) -> Any:
    """Convert an AMQP value to a JSON value."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float) else str(value)


def utc_text(moment: datetime | None, *, zone: str = "") -> str | None:
    """Return a UTC time as text that ends with `zone`; without a zone, the SDK makes a naive datetime."""
    if moment is None:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + zone


def json_data(value: Any) -> TypedData:
    """Wrap a value that is sent as JSON."""
    return TypedData(json=json.dumps(value))
