"""Parts that the requests of operators share: reasons, paths, and texts that came from outside."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from functions.pattern.definition import STEP_PATTERN
from functions.pattern.identity import TASK_ID_PATTERN
from functions.web.access import NEEDS_OWN_HEADER
from functions.web.problems import documented_problems

ReasonText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class Reason(BaseModel):
    """The reason of an action, recorded with it."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"reason": "the payment service is fixed"}]},
    )

    reason: ReasonText


ACTION: dict[str, Any] = {
    "status_code": HTTPStatus.ACCEPTED,
    "dependencies": [NEEDS_OWN_HEADER],
    "responses": documented_problems(400, 404, 409, 413, 415, 422, 503),
}


TaskIdPath = Annotated[
    str,
    Path(pattern=TASK_ID_PATTERN, description="The task's id, as its caller named it", examples=["order-1"]),
]

StepPath = Annotated[
    str,
    Path(pattern=rf"^{STEP_PATTERN}$", description="The step's name", examples=["payment"]),
]


class ShownText(BaseModel):
    """A text, and whether there is `more` of it. It is null if it is not shown; `why` has the reason."""

    text: Annotated[str | None, Field(examples=['{\n  "amount": "4.90",\n  "card": "(hidden)"\n}'])]
    more: bool = False
    why: str | None = None


def text_of(text: str) -> ShownText:
    """Return the first 64 Ki characters of a text, with characters that cannot be printed replaced."""
    most = 64 * 1024
    shown = "".join(each if each.isprintable() or each in "\n\r\t" else "�" for each in text[:most])
    return ShownText(text=shown, more=len(text) > most)


def nothing_of(why: str) -> ShownText:
    """Return an absent text with the reason of its absence."""
    return ShownText(text=None, why=why)
