"""HTTP-triggered functions in front of an ASGI application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import azure.durable_functions as df
import azure.functions as func

from functions.web.handover import Handover

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """An HTTP-triggered function and its route below `/api`; it needs a function key unless it `is_open`."""

    function: str
    route: str
    methods: tuple[str, ...] = ("GET",)
    is_open: bool = False


def http_blueprint(make: Callable[[], ASGIApp], *routes: HttpRoute) -> df.Blueprint:
    """Register a function for each route; one application, made at the first request, answers them all."""
    blueprint = df.Blueprint()
    handover = Handover(make)
    for each in routes:
        _register(blueprint, each, handover)
    return blueprint


def _register(blueprint: df.Blueprint, route: HttpRoute, handover: Handover) -> None:
    level = func.AuthLevel.ANONYMOUS if route.is_open else func.AuthLevel.FUNCTION

    @blueprint.function_name(route.function)
    @blueprint.route(route=route.route, methods=route.methods, auth_level=level)
    async def handle(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await handover.answer(req, context)
