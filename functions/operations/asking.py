"""What all requests of operators that change something have in common."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints

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


#: The declaration of a route that acts on one thing.
ACTION: dict[str, Any] = {
    "status_code": HTTPStatus.ACCEPTED,
    "dependencies": [NEEDS_OWN_HEADER],
    "responses": documented_problems(400, 404, 409, 413, 415, 422, 503),
}
