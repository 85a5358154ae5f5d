"""The checks before an HTTP application: callers, their roles and caps, web pages, bodies, and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic_ns

from fastapi import FastAPI, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.telemetry.spans import request_span
from functions.web.bodies import BodyLimits, ReadRoute
from functions.web.callers import Caller, Identify
from functions.web.caps import CallerCaps, Caps
from functions.web.problems import answer_to, documented_problems, handle_errors

GUARDED = documented_problems(401, 403, 429, 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Which roles callers need: `reading` for GET and HEAD, `writing` for everything else.

    `open_paths` are for all. On paths `by_route`, everybody with a role is let in, of whatever version of a
    workflow it is; the route looks at the roles itself.
    """

    reading: Collection[str]
    writing: Collection[str]
    open_paths: Collection[str] = ()
    by_route: re.Pattern[str] | None = None

    def admit(self, scope: Scope, headers: Headers, identify: Identify) -> Caller:
        """Give the caller. Raises `ProblemError`: 401 for unknown callers, 403 for those without a role."""
        if scope["path"] in self.open_paths:
            # Nobody else has this name, so that its caps are its own.
            return Caller(f"anybody at {scope['path']}", frozenset())
        caller = identify(scope, headers)
        if caller.roles and self.by_route is not None and self.by_route.fullmatch(scope["path"]):
            return caller
        needed = self.reading if scope["method"] in {"GET", "HEAD"} else self.writing
        caller.check(*needed)
        return caller


def caller_of(request: Request) -> Caller:
    """Give the caller that was admitted. As a dependency it would cost each request a tenth more."""
    caller: Caller = request.scope["caller"]
    return caller


type Gate = Callable[[Scope], None]


@dataclass(frozen=True, slots=True)
class Guard:
    """What stands before an application: how callers are known, and how much each may ask for.

    `time` returns the nanoseconds of a clock that is never set back.
    """

    identify: Identify
    caps: Caps
    time: Callable[[], int] = monotonic_ns

    def protect(self, app: FastAPI, access: Access, bodies: BodyLimits, gate: Gate | None = None) -> None:
        """Guard `app`, to which routes are added afterwards; a `gate` may be closed to all."""
        app.router.route_class = ReadRoute
        handle_errors(app)
        app.add_middleware(Entrance, guard=self, access=access, bodies=bodies, gate=gate)


class LastResort:
    """Answers errors without a handler: those of middleware, and unexpected ones with 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - an unexpected error can be of any type
            await answer_to(error, scope)(scope, receive, send)


def install_problems(app: FastAPI) -> None:
    """Make every error of `app` a problem document. Call it last, so that all other middleware is inside."""
    handle_errors(app)
    app.add_middleware(LastResort)


class Entrance:
    """Lets a request through that passes each check: caller, caps, gate, body, in one span."""

    def __init__(
        self, app: ASGIApp, *, guard: Guard, access: Access, bodies: BodyLimits, gate: Gate | None = None
    ) -> None:
        self._app, self._checks = app, LastResort(self._let_in)
        self._identify = guard.identify
        self._caps = CallerCaps(guard.caps, guard.time)
        self._access = access
        self._bodies = bodies
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with request_span(scope, send) as answer:
            await self._checks(scope, receive, answer)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        scope["caller"] = caller = self._access.admit(scope, headers, self._identify)
        with self._caps.admitted(caller) as scope["allowance"]:
            if self._gate is not None:
                self._gate(scope)
            await self._bodies.read(scope, headers, receive)
            await self._app(scope, receive, send)
