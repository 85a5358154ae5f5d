"""Who may call an HTTP application, for what, how often, and from which web pages."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Header, Request
from starlette.datastructures import Headers
from starlette.types import Scope

from functions.web.callers import Caller, Identify
from functions.web.problems import ProblemError, documented_problems

#: What any route behind a guard may answer, for the OpenAPI document.
GUARDED = documented_problems(401, 403, 429, 500)

#: With any value: a page of another origin can't send it without a CORS preflight, which we never allow.
OWN_HEADER = "X-Requested-With"

_READING = frozenset({"GET", "HEAD"})
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Which roles callers need: `reading` for GET and HEAD, `writing` for everything else.

    `open_paths` are for all. On paths `by_route`, everybody with a role is let in, of whatever version of a
    workflow it is; the route looks at the roles itself. Where `own_pages_only`, other sites' pages may
    change nothing.
    """

    reading: Collection[str]
    writing: Collection[str]
    open_paths: Collection[str] = ()
    by_route: re.Pattern[str] | None = None
    own_pages_only: bool = False

    def admit(self, scope: Scope, headers: Headers, identify: Identify) -> Caller:
        """Give the caller. Raises `ProblemError`: 401 for unknown callers, 403 for those without a role."""
        if scope["path"] in self.open_paths:
            # Nobody else has this name, so that its caps are its own.
            return Caller(f"anybody at {scope['path']}", frozenset())
        caller = identify(scope, headers)
        if caller.roles and self.by_route is not None and self.by_route.fullmatch(scope["path"]):
            return caller
        needed = self.reading if scope["method"] in _READING else self.writing
        caller.check(*needed)
        return caller

    def check_origin(self, scope: Scope, headers: Headers) -> None:
        """Refuse changes that another site's page sends (CSRF). Raises `ProblemError` 403."""
        if not self.own_pages_only or scope["method"] in _HARMLESS:
            return
        if not headers.get(OWN_HEADER):
            raise ProblemError(HTTPStatus.FORBIDDEN, f"Send the header {OWN_HEADER}, with any value.")
        if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin" or not _is_own(headers):
            raise ProblemError(HTTPStatus.FORBIDDEN, "Another site's page may not do this.")


def caller_of(request: Request) -> Caller:
    """Give the caller that was admitted. As a dependency it would cost each request a tenth more."""
    caller: Caller = request.scope["caller"]
    return caller


async def _own_header(
    own: Annotated[str, Header(alias=OWN_HEADER, description="Any value, such as `curl`")],
) -> None:
    """Take the header, which was checked before."""


#: Shows in the OpenAPI document that a route needs the header that `own_pages_only` is about.
NEEDS_OWN_HEADER = Depends(_own_header)


def _is_own(headers: Headers) -> bool:
    """Compare hosts only: where TLS ends before the application, it does not see the page's scheme."""
    origin = headers.get("Origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == headers.get("Host", "").lower() != ""
    except ValueError:
        return False
