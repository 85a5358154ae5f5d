"""Keeps strange web pages from acting with an operator's sign-in (CSRF)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Header
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.web.problems import ProblemError

#: With any value: a page of another origin can't send it without asking us first (CORS), and we never agree.
OWN_HEADER = "X-Requested-With"

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


_OwnHeader = Annotated[str, Header(alias=OWN_HEADER, description="Any value, such as `curl`")]


async def _own_header(own: _OwnHeader) -> None:
    """Take the header that has been checked by now."""


#: Has the OpenAPI document say of a route what `SameOrigin` asks for.
NEEDS_OWN_HEADER = Depends(_own_header)


class SameOrigin:
    """Refuses with 403 what changes something, unless it comes from our own page or from no page at all."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through. Raises `ProblemError` 403."""
        if scope["type"] == "http" and scope["method"] not in _HARMLESS:
            _check(Headers(scope=scope))
        await self._app(scope, receive, send)


def _check(headers: Headers) -> None:
    if not headers.get(OWN_HEADER):
        raise ProblemError(HTTPStatus.FORBIDDEN, f"Send the header {OWN_HEADER}, with any value.")
    if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin" or not _is_own(headers):
        raise ProblemError(HTTPStatus.FORBIDDEN, "Another site's page may not do this.")


def _is_own(headers: Headers) -> bool:
    """Compare hosts alone: where TLS ends before the application, it does not see the page's scheme."""
    origin = headers.get("Origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == headers.get("Host", "").lower() != ""
    except ValueError:
        return False
