"""Reads what a remote service answered, as the Agent expects it."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError


def read_answer[Answer: BaseModel](expected: type[Answer], answer: Json) -> Answer:
    """Check the answer. Raises `PermanentError` when it does not fit: asked again, it would not either."""
    try:
        return expected.model_validate(answer)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, fault["loc"]))
        raise PermanentError(f"the answer does not fit ({field}: {fault['msg'].lower()})") from None
