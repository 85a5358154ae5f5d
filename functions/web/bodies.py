"""What a request body may be, checked before the application sees it: size, content type, strict JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import isfinite
from typing import NoReturn

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.web.problems import ProblemError

#: An order is seldom nested deeper than five levels.
MOST_DEPTH = 16

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The most bytes of a body, and how deep its JSON may be nested."""

    most_bytes: int
    most_depth: int = MOST_DEPTH


class BodyLimits:
    """Refuses bodies over the limit with 413, other types than JSON with 415, and invalid JSON with 400.

    `larger` are the limits of the routes that take more, by method and path.
    """

    def __init__(
        self, app: ASGIApp, *, limit: BodyLimit, larger: Mapping[tuple[str, str], BodyLimit] | None = None
    ) -> None:
        self._app = app
        self._limit = limit
        self._larger = larger or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through. Raises `ProblemError` 400, 413 and 415."""
        if scope["type"] == "http" and scope["method"] in _WITH_BODY:
            limit = self._larger.get((scope["method"], scope["path"]), self._limit)
            body = await _read(Request(scope, receive), limit.most_bytes)
            _check(scope, body, limit.most_depth)
            receive = _replay(body)
        await self._app(scope, receive, send)


async def _read(request: Request, most_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            text = f"A body holds at most {most_bytes} bytes here."
            raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    return bytes(body)


def _check(scope: Scope, body: bytes, most_depth: int) -> None:
    content_type = Headers(scope=scope).get("content-type", "")
    if content_type.split(";")[0].strip().lower() != "application/json":
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json.")
    if body and (fault := json_fault(body, most_depth)):
        raise ProblemError(HTTPStatus.BAD_REQUEST, fault)


def _replay(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def json_fault(body: bytes, most_depth: int = MOST_DEPTH) -> str | None:
    """Tell why a body is not UTF-8 JSON with finite numbers, nested no deeper than `most_depth`; or None."""
    too_deep = f"The body is nested deeper than {most_depth} levels."
    try:
        content = json.loads(body.decode(), parse_constant=_refuse, parse_float=_finite)
    except ValueError:
        return "The body is not JSON."
    except RecursionError:
        return too_deep
    return too_deep if _is_deeper(content, most_depth) else None


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
