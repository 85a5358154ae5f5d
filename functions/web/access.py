"""Who may call an HTTP application, for what, how often, and from which web pages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Header, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.pattern.ports import Clock
from functions.web.callers import Caller, Identify, Role
from functions.web.caps import CallerCaps, Caps
from functions.web.problems import ProblemError, documented_problems, install_problems

#: What any route behind a guard may answer, for the OpenAPI document.
GUARDED = documented_problems(401, 403, 429, 500)

#: With any value: a page of another origin can't send it without a CORS preflight, which we never allow.
OWN_HEADER = "X-Requested-With"

_READING = frozenset({"GET", "HEAD"})
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})

#: The caller of what is open to all.
_ANYBODY = Caller("anybody", frozenset())


@dataclass(frozen=True, slots=True)
class Guard:
    """What stands before an application: how callers are known, and how much each may ask for."""

    identify: Identify
    caps: Caps
    clock: Clock

    def protect(
        self,
        app: FastAPI,
        *,
        reading: Collection[Role],
        writing: Collection[Role],
        open_paths: Collection[str] = (),
    ) -> None:
        """Guard all that is in `app` by now; the roles and paths are those of `Access`."""
        app.add_middleware(CallerCaps, caps=self.caps, clock=self.clock)
        app.add_middleware(
            Access, identify=self.identify, reading=reading, writing=writing, open_paths=open_paths
        )
        install_problems(app)


@dataclass(frozen=True, slots=True)
class Access:
    """Admits callers that have one of the roles: 401 for unknown callers, 403 for those without a role.

    `reading` is for GET and HEAD, `writing` for everything else; `open_paths` are for all. The
    caller is in the request's scope from then on.
    """

    app: ASGIApp
    identify: Identify
    reading: Collection[Role]
    writing: Collection[Role]
    open_paths: Collection[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through. Raises `ProblemError` 401 and 403."""
        if scope["type"] == "http":
            scope["caller"] = self._admit(scope)
        await self.app(scope, receive, send)

    def _admit(self, scope: Scope) -> Caller:
        if scope["path"] in self.open_paths:
            return _ANYBODY
        caller = self.identify(Headers(scope=scope))
        needed = self.reading if scope["method"] in _READING else self.writing
        if caller.roles.isdisjoint(needed):
            raise ProblemError(HTTPStatus.FORBIDDEN, f"This takes the role {' or '.join(sorted(needed))}.")
        return caller


async def _caller_of(request: Request) -> Caller:
    caller: Caller = request.scope["caller"]
    return caller


#: The caller that `Access` has admitted, as a parameter of a route.
AdmittedCaller = Annotated[Caller, Depends(_caller_of)]


async def _own_header(
    own: Annotated[str, Header(alias=OWN_HEADER, description="Any value, such as `curl`")],
) -> None:
    """Take the header, which `SameOrigin` has checked."""


#: Shows in the OpenAPI document that a route needs the header that `SameOrigin` checks.
NEEDS_OWN_HEADER = Depends(_own_header)


class SameOrigin:
    """Refuses requests that change something with 403 when another site's page sends them (CSRF)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through. Raises `ProblemError` 403."""
        if scope["type"] == "http" and scope["method"] not in _HARMLESS:
            _check_origin(Headers(scope=scope))
        await self._app(scope, receive, send)


def _check_origin(headers: Headers) -> None:
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
