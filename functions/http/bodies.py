"""What a request body may be, checked before it is read: its size and its content type."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.http.problems import problem_response

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class BodyLimits:
    """Refuses bodies over `most_bytes` with 413, and other types than JSON with 415."""

    def __init__(self, app: ASGIApp, *, most_bytes: int) -> None:
        self._app = app
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer in the application's place."""
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        body = await self._read(scope, receive)
        if body is None:
            text = f"A body holds at most {self._most_bytes} bytes."
            refusal = problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
            await refusal(scope, receive, send)
        elif not _is_json(scope):
            refusal = problem_response(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json."
            )
            await refusal(scope, receive, send)
        else:
            await self._app(scope, _replay(body), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        body = b""
        async for chunk in Request(scope, receive).stream():
            body += chunk
            if len(body) > self._most_bytes:
                return None
        return body


def _is_json(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"content-type":
            return bytes(value).split(b";")[0].strip().lower() == b"application/json"
    return False


def _replay(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
