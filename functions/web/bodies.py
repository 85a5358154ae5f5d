"""What a request body may be, checked before the application sees it: size, content type, strict JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from math import isfinite
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from functions.web.problems import ProblemError

#: An order is seldom nested deeper than five levels.
MOST_DEPTH = 16

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The most bytes of a body, and how deep its JSON may be nested."""

    most_bytes: int
    most_depth: int = MOST_DEPTH


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limit of an application's bodies; `larger` are those of routes that take more, by method, path."""

    usual: BodyLimit
    larger: Mapping[tuple[str, str], BodyLimit] = field(default_factory=dict)

    async def read(self, scope: Scope, headers: Headers, receive: Receive) -> None:
        """Read and parse the body, if the method has one, and keep both in the scope.

        Raises `ProblemError`: 413 over the limit, 415 for other types than JSON, 400 for invalid JSON.
        """
        if scope["method"] not in _WITH_BODY:
            return
        limit = self.larger.get((scope["method"], scope["path"]), self.usual)
        scope["body"] = body = await _read(receive, limit.most_bytes)
        if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json.")
        if body:
            scope["json"] = parse_json(body, limit.most_depth)


class ReadRequest(Request):
    """A request whose body `BodyLimits` has read and parsed already."""

    async def body(self) -> bytes:
        """Give the body as it came."""
        body: bytes = self.scope["body"]
        return body

    async def json(self) -> Any:
        """Give what the body holds."""
        return self.scope["json"]


class ReadRoute(APIRoute):
    """A route that has FastAPI validate what was parsed, instead of parsing the body once more."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Hand over the request as one that was read."""
        handle = super().get_route_handler()

        async def handle_read(request: Request) -> Response:
            return await handle(ReadRequest(request.scope))

        return handle_read


async def _read(receive: Receive, most_bytes: int) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > most_bytes:
            text = f"A body holds at most {most_bytes} bytes here."
            raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        more = message.get("more_body", False)
    return body


def parse_json(body: bytes, most_depth: int = MOST_DEPTH) -> object:
    """Parse UTF-8 JSON with finite numbers, nested no deeper than `most_depth`. Raises `ProblemError` 400."""
    try:
        content = json.loads(body.decode(), parse_constant=_refuse, parse_float=_finite)
    except ValueError:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "The body is not JSON.") from None
    except RecursionError:
        raise _too_deep(most_depth) from None
    # A body that opens fewer objects and lists can't be deeper; most need no closer look.
    if body.count(b"{") + body.count(b"[") > most_depth and _is_deeper(content, most_depth):
        raise _too_deep(most_depth)
    return content


def _too_deep(most_depth: int) -> ProblemError:
    return ProblemError(HTTPStatus.BAD_REQUEST, f"The body is nested deeper than {most_depth} levels.")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(digits)
    return number


def _is_deeper(content: object, most: int) -> bool:
    if not isinstance(content, dict | list):
        return False
    children = content.values() if isinstance(content, dict) else content
    return most == 0 or any(_is_deeper(child, most - 1) for child in children)
