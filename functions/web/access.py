"""The door of an HTTP application: who may come in, and for what."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.web.callers import Caller, Identify, Role, UnknownCallerError
from functions.web.problems import ProblemError

_READING = frozenset({"GET", "HEAD"})

#: Who calls what is open to all.
_ANYBODY = Caller("anybody", frozenset())


class Access:
    """Lets in who has one of the roles that it takes: 401 for strangers, 403 for those without a role.

    `reading` is for GET and HEAD, `writing` for everything else; `open_paths` are for all. Whoever is let in
    stands in the request's scope.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        identify: Identify,
        reading: Collection[Role],
        writing: Collection[Role],
        open_paths: Collection[str] = (),
    ) -> None:
        self._app = app
        self._identify = identify
        self._reading = frozenset(reading)
        self._writing = frozenset(writing)
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through. Raises `ProblemError` 401 and 403."""
        if scope["type"] == "http":
            scope["caller"] = self._admit(scope)
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> Caller:
        if scope["path"] in self._open_paths:
            return _ANYBODY
        try:
            caller = self._identify(Headers(scope=scope))
        except UnknownCallerError:
            raise ProblemError(
                HTTPStatus.UNAUTHORIZED, "Sign in first.", headers={"WWW-Authenticate": "Bearer"}
            ) from None
        needed = self._reading if scope["method"] in _READING else self._writing
        if not caller.roles & needed:
            raise ProblemError(HTTPStatus.FORBIDDEN, f"This takes the role {' or '.join(sorted(needed))}.")
        return caller


async def _caller_of(request: Request) -> Caller:
    caller: Caller = request.scope["caller"]
    return caller


#: The caller that `Access` has let in, as a parameter of a route.
AdmittedCaller = Annotated[Caller, Depends(_caller_of)]
