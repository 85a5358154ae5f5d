"""Bodies of events: checked strictly when they are told, recorded as they were sent, read by what follows."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from functions.pattern.plain_json import plain_json


def check_body(model: type[BaseModel], body: bytes) -> None:
    """Check a body that is told: a text such as "no" is no bool. Raises `pydantic.ValidationError`."""
    model.model_validate_json(body, strict=True)


def read_body(model: type[BaseModel], body: bytes) -> Any:
    """Give what functions get of a recorded body: with the model's defaults, by alias, as JSON.

    Raises `pydantic.ValidationError`.
    """
    try:
        read = model.model_validate_json(body, strict=True)
    except ValidationError:  # it was recorded when "no" was a bool
        read = model.model_validate_json(body)
    return plain_json(read)
