"""Hands HTTP requests of the Functions host to an ASGI application, and its answers back.

It does what `func.AsgiMiddleware` does, for a third of its cost: that one copies all headers four times, and
reads each address twice. Two things are ours. The application is made at its first request. And an address
that is not clear is refused with 400: the host hands on paths that are not UTF-8, such as `/%ff`, even where
no key is needed; and it makes addresses out of the `Host` header, so that a slash in there would lead from a
function that is open to a route that is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import azure.functions as func

from functions.telemetry.http import HOST_TRACE

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from starlette.types import ASGIApp

#: Characters that end the host in an address: what follows would be taken for the path.
_ENDS_A_HOST = frozenset("/\\?#@")

_PORTS = {"http": 80, "https": 443}

#: On every answer, where the application says nothing else: nobody keeps it, and nobody guesses its type.
#: Browsers heed the last one only where they came by https, so it does nothing on a developer's machine.
_ON_EVERY_ANSWER = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Strict-Transport-Security": "max-age=31536000",
}


class Handover:
    """Has one application answer, which is made at the first request."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._application = cache(make)

    async def answer(self, request: func.HttpRequest, context: func.Context | None) -> func.HttpResponse:
        """Give the application's answer; 400 for an address that is not clear."""
        scope = _scope_of(request, context)
        if scope is None:
            return _unclear()
        answer = _Answer(request.get_body())
        await self._application()(scope, answer.receive, answer.send)
        return answer.response()


class _Answer:
    """What the application reads and sends; the host hands over both as a whole."""

    def __init__(self, body: bytes) -> None:
        self._request: bytes | None = body
        self._body: list[bytes] = []
        self._status = HTTPStatus.INTERNAL_SERVER_ERROR.value
        self._headers: list[tuple[bytes, bytes]] = []

    async def receive(self) -> MutableMapping[str, Any]:
        """Give the whole body, and then nothing: the host doesn't tell when a caller goes away."""
        if self._request is None:
            await asyncio.Future()
        body, self._request = self._request, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take the status and the headers, or a part of the body."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], message["headers"]
        elif message["type"] == "http.response.body":
            self._body.append(message.get("body", b""))

    def response(self) -> func.HttpResponse:
        """Give what was sent, as the host takes it."""
        response = func.HttpResponse(b"".join(self._body), status_code=self._status)
        for name, value in self._headers:
            response.headers.add(name.decode("latin-1"), value.decode("latin-1"))
        for known, text in _ON_EVERY_ANSWER.items():
            response.headers.setdefault(known, text)
        return response


def _scope_of(request: func.HttpRequest, context: func.Context | None) -> dict[str, Any] | None:
    """Describe a request as ASGI does (HTTP connection scope), or give None when its address is not clear."""
    headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
    try:
        address = urlsplit(request.url)
        path = unquote(address.path, errors="strict")
        server = (address.hostname or "", address.port or _PORTS.get(address.scheme, 80))
    except ValueError:
        return None
    if not _ENDS_A_HOST.isdisjoint(request.headers.get("host", "")):
        return None
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": address.scheme,
        "path": path,
        "raw_path": address.path.encode(),
        "query_string": address.query.encode(),
        "root_path": "",
        "headers": headers,
        "server": server,
        "client": None,
        HOST_TRACE: getattr(context, "trace_context", None),
    }


def _unclear() -> func.HttpResponse:
    from functions.web.problems import PROBLEM_TYPE, problem  # noqa: PLC0415 - they come with FastAPI

    document = problem(HTTPStatus.BAD_REQUEST, "The address is not a URL in UTF-8.")
    return func.HttpResponse(
        document.model_dump_json(exclude_none=True),
        status_code=document.status,
        headers=_ON_EVERY_ANSWER,
        mimetype=PROBLEM_TYPE,
    )
