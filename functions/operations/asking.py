"""What requests of operators have in common: reasons, paths, and how content from outside is shown."""

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
    """Why an operator acts; it is kept with what is acted on."""

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
    """A text, and whether there is `more` of it; null where it is not shown, with the reason in `why`."""

    text: Annotated[str | None, Field(examples=['{\n  "amount": "4.90",\n  "card": "(hidden)"\n}'])]
    more: bool = False
    why: str | None = None


def text_of(text: str) -> ShownText:
    """Show a text without what can't be printed, up to 64 Ki characters: a payload is shown whole."""
    most = 64 * 1024
    shown = "".join(each if each.isprintable() or each in "\n\r\t" else "�" for each in text[:most])
    return ShownText(text=shown, more=len(text) > most)


def nothing_of(why: str) -> ShownText:
    """Say why something is not shown."""
    return ShownText(text=None, why=why)
