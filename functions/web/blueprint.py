"""HTTP-triggered functions in front of an ASGI application."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import azure.durable_functions as df
import azure.functions as func
from starlette.types import ASGIApp

from functions.web.problems import PROBLEM_TYPE, problem


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """An HTTP-triggered function and its route below `/api`; it needs a function key unless it `is_open`."""

    function: str
    route: str
    methods: tuple[str, ...] = ("GET",)
    is_open: bool = False


#: Characters that end the host in an address: what follows would be taken for the path.
_ENDS_A_HOST = frozenset("/\\?#@")


def http_blueprint(application: ASGIApp, *routes: HttpRoute) -> df.Blueprint:
    """Register a function for each route, which all have `application` answer."""
    blueprint = df.Blueprint()
    adapter = func.AsgiMiddleware(application)
    for each in routes:
        _register(blueprint, each, adapter)
    return blueprint


def _register(blueprint: df.Blueprint, route: HttpRoute, adapter: func.AsgiMiddleware) -> None:
    """Have the application answer, but for addresses that the adapter fails at or misreads: those are 400.

    The host hands on paths that are not UTF-8, such as `/%ff`, at which the adapter raises, even where
    no key is needed. It makes addresses out of the `Host` header, so that a slash in there would lead from
    a function that is open to a route that is not.
    """
    level = func.AuthLevel.ANONYMOUS if route.is_open else func.AuthLevel.FUNCTION

    @blueprint.function_name(route.function)
    @blueprint.route(route=route.route, methods=route.methods, auth_level=level)
    async def handle(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        if not _is_clear(req):
            document = problem(HTTPStatus.BAD_REQUEST, "The address is not a URL in UTF-8.")
            return func.HttpResponse(
                document.model_dump_json(exclude_none=True),
                status_code=document.status,
                headers={"X-Content-Type-Options": "nosniff"},
                mimetype=PROBLEM_TYPE,
            )
        answer: func.HttpResponse = await adapter.handle_async(req, context)
        return answer


def _is_clear(request: func.HttpRequest) -> bool:
    try:
        address = urlsplit(request.url)
        unquote(address.path, errors="strict")
        _ = address.port
    except ValueError:
        return False
    return _ENDS_A_HOST.isdisjoint(request.headers.get("host", ""))
