"""Bodies of events: checked strictly when they are told, recorded as they were sent, read by what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from functions.pattern.plain_json import plain_json

#: What pydantic says strictly of a text where it wants a date, say, and forgets that JSON has none.
_OF_TEXTS = frozenset({"bytes_type", "date_type", "datetime_type", "time_delta_type", "time_type"})


def check_body(model: type[BaseModel], body: bytes) -> None:
    """Check a body that is told: a text such as "no" is no bool. Raises `pydantic.ValidationError`."""
    try:
        model.model_validate_json(body, strict=True)
    except ValidationError as error:
        if not all(map(_is_of_json, error.errors(include_url=False, include_context=False))):
            raise
        model.model_validate_json(body)  # behind a validator of the model's own


def _is_of_json(fault: Mapping[str, object]) -> bool:
    """Tell whether JSON has no other form of what is refused; `is_instance_of` is said of decimal numbers."""
    kind, given = fault["type"], type(fault["input"])
    return (kind in _OF_TEXTS and given is str) or (kind == "is_instance_of" and given in {str, int, float})


def schema_of(model: type[BaseModel]) -> dict[str, Any] | None:
    """Give the JSON Schema of what can be told; None of a model that has none, whatever says so."""
    try:
        return model.model_json_schema()
    except Exception:  # noqa: BLE001 - whatever pydantic, or a type of the model's own, raises
        return None


def read_body(model: type[BaseModel], body: bytes) -> Any:
    """Give what functions get of a recorded body: with the model's defaults, by alias, as JSON.

    Raises `pydantic.ValidationError`.
    """
    try:
        read = model.model_validate_json(body, strict=True)
    except ValidationError:  # it was recorded when "no" was a bool
        read = model.model_validate_json(body)
    return plain_json(read)
