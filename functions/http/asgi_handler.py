"""HTTP-triggered functions in front of an ASGI application, which `func.AsgiMiddleware` calls.

The host builds the URL of a request from its `Host` header. A slash in the header would lead from an open
function to a protected route. The host also accepts paths that are not UTF-8, such as `/%ff`. Both are
refused with 400.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import azure.functions as func

if TYPE_CHECKING:
    from starlette.types import ASGIApp

type HttpHandler = Callable[[func.HttpRequest, func.Context | None], Awaitable[func.HttpResponse]]

#: Characters that end the host in a URL. The text behind them would become the path.
_ENDS_A_HOST = frozenset("/\\?#@")

#: Headers of each answer unless the application sets them. They forbid caches and guesses of the type.
#: Browsers ignore the last one over http, so it has no effect on a developer's machine.
_DEFAULT_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Strict-Transport-Security": "max-age=31536000",
}


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """An HTTP-triggered function and its route below `/api`; it needs a function key unless it `is_open`."""

    function: str
    route: str
    methods: tuple[str, ...] = ("GET",)
    is_open: bool = False


def http_handler(make: Callable[[], ASGIApp]) -> HttpHandler:
    """Return a handler for one application. The first request makes the application."""
    middleware = cache(lambda: func.AsgiMiddleware(make()))

    async def answer(request: func.HttpRequest, context: func.Context | None) -> func.HttpResponse:
        response: func.HttpResponse
        if _has_clear_address(request):
            response = await middleware().handle_async(request, context)
        else:
            response = _unclear_address()
        for name, text in _DEFAULT_HEADERS.items():
            response.headers.setdefault(name, text)
        return response

    return answer


def _has_clear_address(request: func.HttpRequest) -> bool:
    """Return whether the SDK's adapter can read the address, and reads the path that the host has matched."""
    try:
        address = urlsplit(request.url)
        unquote(address.path, errors="strict")
        _ = address.port  # raises ValueError for a port that is no number
    except ValueError:
        return False
    if re.search(r"\d{9}", request.headers.get("x-forwarded-port", "")):
        return False  # the adapter raises at a number with thousands of digits
    return ";" not in address.path and _ENDS_A_HOST.isdisjoint(request.headers.get("host", ""))


def _unclear_address() -> func.HttpResponse:
    from functions.http.problems import PROBLEM_TYPE, problem  # noqa: PLC0415 - imports FastAPI

    document = problem(HTTPStatus.BAD_REQUEST, "The address, or its port in a header, is not valid.")
    return func.HttpResponse(
        document.model_dump_json(exclude_none=True), status_code=document.status, mimetype=PROBLEM_TYPE
    )
