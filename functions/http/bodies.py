"""What a request body may be, checked before it is read: its size and its content type."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.http.problems import problem, problem_response

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


#: The limits of single routes, in bytes, by method and path.
RouteLimits = Mapping[tuple[str, str], int]


class BodyLimits:
    """Refuses bodies over `most_bytes` with 413, and other types than JSON with 415.

    `larger` are the routes that take more.
    """

    def __init__(self, app: ASGIApp, *, most_bytes: int, larger: RouteLimits | None = None) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._larger = larger or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer in the application's place."""
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        most_bytes = self._larger.get((scope["method"], scope["path"]), self._most_bytes)
        body = await _read(Request(scope, receive), most_bytes)
        if body is None:
            text = f"A body holds at most {most_bytes} bytes here."
            refusal = problem_response(problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text))
            await refusal(scope, receive, send)
        elif not _is_json(scope):
            text = "The body must be application/json."
            refusal = problem_response(problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text))
            await refusal(scope, receive, send)
        else:
            await self._app(scope, _replay(body), send)


async def _read(request: Request, most_bytes: int) -> bytes | None:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            return None
    return bytes(body)


def _is_json(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"content-type":
            return bytes(value).split(b";")[0].strip().lower() == b"application/json"
    return False


def _replay(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
