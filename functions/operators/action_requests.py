"""The requests of actions: a reason, and the check that another site's page changes nothing (CSRF)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Header
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints
from starlette.datastructures import Headers
from starlette.types import Scope

from functions.core.json_values import bounded
from functions.http.problems import ProblemError, documented_problems

#: With any value: a page of another origin can't send it without a CORS preflight, which we never allow.
OWN_HEADER = "X-Requested-With"


def check_origin(scope: Scope) -> None:
    """Reject changes that another site's page sends. Raises `ProblemError` 403."""
    if scope["method"] in {"GET", "HEAD", "OPTIONS"}:
        return
    headers = Headers(scope=scope)
    if not headers.get(OWN_HEADER):
        raise ProblemError(HTTPStatus.FORBIDDEN, f"Send the header {OWN_HEADER}, with any value.")
    if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin" or not _is_own(headers):
        raise ProblemError(HTTPStatus.FORBIDDEN, "Another site's page may not do this.")


def _is_own(headers: Headers) -> bool:
    """Compare hosts only: where TLS ends before the application, it does not see the page's scheme."""
    origin = headers.get("Origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == headers.get("Host", "").lower() != ""
    except ValueError:
        return False


async def _own_header(
    own: Annotated[str, Header(alias=OWN_HEADER, description="Any value, such as `curl`")],
) -> None:
    """Document the header, which `check_origin` has checked."""


NEEDS_OWN_HEADER = Depends(_own_header)

#: The settings of the routes of actions.
ACTION: dict[str, Any] = {
    "status_code": HTTPStatus.ACCEPTED,
    "dependencies": [NEEDS_OWN_HEADER],
    "responses": documented_problems(400, 404, 409, 413, 415, 422, 503),
}


#: Bytes of UTF-8 of 500 characters.
_MOST_REASON_BYTES = 2000


class Reason(BaseModel):
    """The reason of an operator's action. Characters that cannot be printed become spaces."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "it was a test"}]})

    reason: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=500),
        AfterValidator(lambda text: bounded(text, _MOST_REASON_BYTES)),
    ]
