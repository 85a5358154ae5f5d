"""Hands the requests of an HTTP-triggered function to an ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import azure.functions as func
from starlette.types import ASGIApp

from functions.web.problems import PROBLEM_TYPE, problem

#: Answers one request.
type Handler = Callable[[func.HttpRequest, func.Context], Awaitable[func.HttpResponse]]

#: What ends the name of a host in an address: what follows would be taken for the path.
_ENDS_A_HOST = frozenset("/\\?#@")


def handler_of(application: ASGIApp) -> Handler:
    """Have `application` answer, but for addresses that the adapter fails at or misreads: those are 400.

    The host hands on paths that are not UTF-8, such as `/%ff`, at which the adapter raises, even where
    anybody may ask. It makes addresses of what the caller calls us (`Host`), so that a slash in there would
    lead from a function that is open to a route that is not.
    """
    adapter = func.AsgiMiddleware(application)  # type: ignore[no-untyped-call]  # the SDK's has no types

    async def handle(request: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        if not _is_clear(request):
            return _refusal()
        answer: func.HttpResponse = await adapter.handle_async(request, context)
        return answer

    return handle


def _is_clear(request: func.HttpRequest) -> bool:
    try:
        address = urlsplit(request.url)
        unquote(address.path, errors="strict")
        _ = address.port
    except ValueError:
        return False
    return _ENDS_A_HOST.isdisjoint(request.headers.get("host", ""))


def _refusal() -> func.HttpResponse:
    document = problem(HTTPStatus.BAD_REQUEST, "The address is not a URL in UTF-8.")
    return func.HttpResponse(
        document.model_dump_json(exclude_none=True),
        status_code=document.status,
        headers={"X-Content-Type-Options": "nosniff"},
        mimetype=PROBLEM_TYPE,
    )
