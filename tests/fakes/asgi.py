"""Calls an ASGI application directly, as a server does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The application's response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The parsed body."""
        return json.loads(self.body)


class AsgiClient:
    """Sends requests to one application, each with `headers`. A body that is not bytes is sent as JSON."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._headers = headers or {}

    async def get(self, path: str) -> HttpAnswer:
        """Send a GET."""
        return await self.send("GET", path)

    async def put(self, path: str, body: object) -> HttpAnswer:
        """Send a PUT."""
        return await self.send("PUT", path, body)

    async def post(self, path: str, body: object) -> HttpAnswer:
        """Send a POST."""
        return await self.send("POST", path, body)

    async def delete(self, path: str) -> HttpAnswer:
        """Send a DELETE."""
        return await self.send("DELETE", path)

    async def send(
        self, method: str, path: str, body: object = b"", *, content_type: str | None = "application/json"
    ) -> HttpAnswer:
        """Send a request with its body in two pieces, and collect the response."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        half = len(content) // 2
        pieces = [(content[:half], True), (content[half:], False)]
        sent: list[Message] = []

        async def receive() -> Message:
            if not pieces:
                return {"type": "http.disconnect"}
            piece, more = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": more}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = {**self._headers} | ({} if content_type is None else {"content-type": content_type})
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self._app(_scope(method, path, raw), receive, send)
        return _answer(sent)


def _scope(method: str, target: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 7071),
    }


def _answer(sent: list[Message]) -> HttpAnswer:
    start, *rest = sent
    return HttpAnswer(
        status=start["status"],
        headers={name.decode(): value.decode() for name, value in start["headers"]},
        body=b"".join(message.get("body", b"") for message in rest),
    )
