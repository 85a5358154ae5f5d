"""The one middleware before an application: who may come in, how often, with what, and how failures look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.pattern.ports import Clock
from functions.telemetry.http import request_span
from functions.web.access import Access
from functions.web.bodies import BodyLimits, ReadRoute
from functions.web.callers import Identify
from functions.web.caps import CallerCaps, Caps
from functions.web.problems import answer_to, handle_errors

#: Lets a request pass, by its scope, or raises `ProblemError`; nothing of its body has been read.
type Gate = Callable[[Scope], None]


@dataclass(frozen=True, slots=True)
class Guard:
    """What stands before an application: how callers are known, and how much each may ask for."""

    identify: Identify
    caps: Caps
    clock: Clock

    def protect(self, app: FastAPI, access: Access, bodies: BodyLimits, gate: Gate | None = None) -> None:
        """Guard `app`, to which routes are added afterwards; a `gate` may be closed to all."""
        app.router.route_class = ReadRoute
        handle_errors(app)
        app.add_middleware(Entrance, guard=self, access=access, bodies=bodies, gate=gate)


class Entrance:
    """Lets a request through that passes each check, in this order; the first that fails answers it.

    Its caller is known and has a role, within its caps; no gate is closed to it; it comes from a page of
    ours, or none; the body is short enough, and JSON. The route finds caller, allowance and body in the
    scope. The whole is one span.
    """

    def __init__(
        self, app: ASGIApp, *, guard: Guard, access: Access, bodies: BodyLimits, gate: Gate | None = None
    ) -> None:
        self._app = app
        self._identify = guard.identify
        self._caps = CallerCaps(guard.caps, guard.clock)
        self._access = access
        self._bodies = bodies
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, its failure as a problem document without internals."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with request_span(scope, send) as answer:
            try:
                await self._let_in(scope, receive, answer)
            except Exception as error:  # noqa: BLE001 - an unexpected error can be of any type
                await answer_to(error, scope)(scope, receive, answer)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        scope["caller"] = caller = self._access.admit(scope, headers, self._identify)
        with self._caps.admitted(caller) as scope["allowance"]:
            if self._gate is not None:
                self._gate(scope)
            self._access.check_origin(scope, headers)
            await self._bodies.read(scope, headers, receive)
            await self._app(scope, receive, send)
