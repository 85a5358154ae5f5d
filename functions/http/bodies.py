"""Check a request body before the application sees it: size, content type, JSON."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from functions.core.json_values import TOO_LARGE
from functions.http.problems import ProblemError

#: An order is seldom nested deeper than five levels.
MOST_DEPTH = 16

#: Values of a body, with objects and lists. Such a body is parsed in less than 50 ms.
MOST_VALUES = 40_000


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The largest number of bytes and of levels of a body. `larger` has limits by method and path."""

    most_bytes: int
    most_depth: int = MOST_DEPTH
    larger: Mapping[tuple[str, str], BodyLimit] = field(default_factory=dict)

    async def read(self, scope: Scope, headers: Headers, receive: Receive) -> None:
        """Read and parse the body into the scope. Raises `ProblemError` 400, 413 (size), 415 (type)."""
        if scope["method"] not in {"POST", "PUT", "PATCH"}:
            return
        limit = self.larger.get((scope["method"], scope["path"]), self)
        scope["body"] = body = await _read(receive, limit.most_bytes)
        if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json.")
        if body:
            scope["json"] = parse_body(body, limit.most_depth)


class ReadRequest(Request):
    """A request whose body `BodyLimit` has read and parsed."""

    async def body(self) -> bytes:
        """Return the bytes of the body."""
        body: bytes = self.scope["body"]
        return body

    async def json(self) -> Any:
        """Return the parsed body."""
        return self.scope["json"]


class ReadRoute(APIRoute):
    """A route that validates the parsed body, instead of parsing the body once more."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, called with the request that was read."""
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


def parse_body(body: bytes, most_depth: int = MOST_DEPTH) -> object:
    """Parse a body. The last value of a name that occurs twice counts. Raises `ProblemError` 400 and 413."""
    if body.count(b"[") + body.count(b"{") > MOST_VALUES:  # 500,000 empty lists cost 100 ms to parse
        raise _too_many_values()
    try:
        content = from_json(body)
    except ValueError as error:
        raise _unfit(f"not JSON ({error})") from None
    level, depth, values = [content], 1, 1
    while level:
        below = list[Any]()
        for value in level:
            if isinstance(value, dict | list):
                if depth > most_depth:
                    raise _unfit(f"nested deeper than {most_depth} levels")
                below.extend(value.values() if isinstance(value, dict) else value)
            elif isinstance(value, int | float) and not -TOO_LARGE < value < TOO_LARGE:
                raise _unfit("not a finite number")
        values += len(below)
        if values > MOST_VALUES:
            raise _too_many_values()
        level, depth = below, depth + 1
    return content


def _unfit(fault: str) -> ProblemError:
    return ProblemError(HTTPStatus.BAD_REQUEST, f"The body can't be read: {fault}.")


def _too_many_values() -> ProblemError:
    text = f"A body holds at most {MOST_VALUES} values; a bracket inside a text counts as one."
    return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
