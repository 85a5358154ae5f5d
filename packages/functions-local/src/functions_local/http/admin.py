"""The host's own endpoints: its status, its functions, and running one of them on request."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any, assert_never

from aiohttp import web
from pydantic import BaseModel, ValidationError

from functions_local.app import (
    ActivityTrigger,
    AuthLevel,
    EventHubTrigger,
    Function,
    HttpTrigger,
    OrchestrationTrigger,
    ServiceBusTrigger,
    TimerTrigger,
)
from functions_local.event_hubs.metadata import text_as_events
from functions_local.http.keys import Keys
from functions_local.http.routes import RouteTable
from functions_local.invocations import Invocations
from functions_local.messaging.metadata import text_as_delivery
from functions_local.protos import TypedData
from functions_local.timers.trigger import timer_input

#: Fields of a function's files in the responses of Core Tools.
_OF_FILES = ("script_root_path_href", "script_href", "config_href", "test_data_href", "files", "test_data")

type _Call = tuple[Mapping[str, TypedData], Mapping[str, TypedData]]
type _Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ManualRun(BaseModel):
    """The body of `POST /admin/functions/{name}`. A timer ignores `input`."""

    input: str | None = None


class Admin:
    """Serves `/admin` as Core Tools do; with --enforce-auth each request but a ping needs the master key."""

    def __init__(
        self,
        functions: Sequence[Function],
        routes: RouteTable,
        invocations: Invocations,
        keys: Keys,
        engine_figures: Callable[[], Mapping[str, int]],
    ) -> None:
        self._functions = {function.name.lower(): function for function in functions}
        self._paths = {route.function.name: route.path for route in routes.routes}
        self._invocations = invocations
        self._keys = keys
        self._engine_figures = engine_figures
        self._started = time.monotonic()
        # Read once: it reads files, and tools may request the status many times a second.
        self._version = f"functions-local {metadata.version('functions-local')}"
        self._runs: set[asyncio.Task[Any]] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return the endpoints, for the HTTP server."""
        return [
            web.get("/admin/functions", self._guarded(self._list)),
            web.get("/admin/functions/{name}", self._guarded(self._one)),
            web.get("/admin/functions/{name}/status", self._guarded(self._errors)),
            web.post("/admin/functions/{name}", self._guarded(self._run)),
            web.get("/admin/host/status", self._guarded(self._status)),
            web.get("/admin/host/ping", _ping),
            web.post("/admin/host/ping", _ping),
        ]

    def _guarded(self, handler: _Handler) -> _Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            if not self._keys.allow(request, AuthLevel.ADMIN):
                return web.Response(status=401)
            return await handler(request)

        return guarded

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response([self._described(each, request) for each in self._functions.values()])

    async def _one(self, request: web.Request) -> web.Response:
        return web.json_response(self._described(self._named(request), request))

    async def _errors(self, request: web.Request) -> web.Response:
        """Return the errors of a function: always none, because an error prevents the start."""
        self._named(request)
        return web.json_response({})

    def _named(self, request: web.Request) -> Function:
        function = self._functions.get(request.match_info["name"].lower())
        if function is None:
            raise web.HTTPNotFound
        return function

    def _described(self, function: Function, request: web.Request) -> dict[str, Any]:
        """Return a function's description with the fields of Core Tools; the fields of files are null."""
        origin, path = f"{request.scheme}://{request.host}", self._paths.get(function.name)
        return {
            "name": function.name,
            **dict.fromkeys(_OF_FILES),
            "href": f"{origin}/admin/functions/{function.name}",
            "invoke_url_template": None if path is None else f"{origin}{path}",
            "language": "python",
            "config": {"name": function.name, "language": "python", "bindings": function.bindings},
            "isDisabled": False,
            "isDirect": True,
            "isProxy": False,
        }

    async def _status(self, _request: web.Request) -> web.Response:
        """Return the host's status with the fields of Core Tools, and this host's own figures."""
        name, counted = platform.node(), self._invocations.counters.items()
        return web.json_response(
            {
                "id": name.lower(),
                "state": "Running",
                "version": "4",
                "versionDetails": self._version,
                "instanceId": None,
                "computerName": name,
                "processUptime": round((time.monotonic() - self._started) * 1000),
                "running": self._invocations.running,
                "functions": {each: asdict(counters) for each, counters in counted},
                "durable": dict(self._engine_figures()),
            }
        )

    async def _run(self, request: web.Request) -> web.Response:
        """Run a function once, without waiting for it: 202."""
        function = self._named(request)
        try:
            wanted = ManualRun.model_validate_json(await request.read() or b"{}")
        except ValidationError:
            return web.json_response({"Message": 'the body must be {"input": "<text>"}'}, status=400)
        call = _manual_call(function, wanted.input or "")
        if call is None:
            text = f"{function.name} has a trigger that cannot be run from here; send it a request"
            return web.json_response({"Message": text}, status=400)
        run = asyncio.create_task(self._invocations.run(function, *call))
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)
        return web.Response(status=202)


async def _ping(_request: web.Request) -> web.Response:
    return web.Response()


def _manual_call(function: Function, text: str) -> _Call | None:
    trigger = function.trigger
    match trigger:
        case TimerTrigger():
            return {trigger.parameter: timer_input(None, past_due=False)}, {}
        case ServiceBusTrigger():
            delivery = text_as_delivery(text, many=trigger.many)
            return {trigger.parameter: delivery.body}, delivery.metadata
        case EventHubTrigger():
            delivery = text_as_events(text, binary=trigger.binary)
            return {trigger.parameter: delivery.body}, delivery.metadata
        case ActivityTrigger():
            return {trigger.parameter: TypedData(string=text)}, {}
        case HttpTrigger() | OrchestrationTrigger():
            return None
        case _:
            assert_never(trigger)
