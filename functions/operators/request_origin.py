"""The check that another site's page changes nothing (CSRF), and the header that it requires."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Header
from starlette.datastructures import Headers
from starlette.types import Scope

from functions.web.problems import ProblemError

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
