"""The host: starts its parts in order, and stops them without losing work."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from functions_local.app import (
    EventHubTrigger,
    Function,
    HttpTrigger,
    ServiceBusTrigger,
    TimerTrigger,
    load_functions,
    uses_durable,
)
from functions_local.configuration import AppSettings, StartError
from functions_local.connections import ConnectionSettings
from functions_local.diagnostics import LoopWatchdog
from functions_local.durable import DurableEngine, EngineOptions
from functions_local.early_start import Address, preload, until_all_answer
from functions_local.host_json import load_host_json
from functions_local.http.admin import Admin
from functions_local.http.keys import Keys
from functions_local.http.routes import RouteTable
from functions_local.http.server import HttpFunctions, HttpServer
from functions_local.invocations import Invocations
from functions_local.messaging.clients import Connections, Outputs
from functions_local.messaging.trigger import ServiceBusListener
from functions_local.orchestrations import make_engine, start_engine
from functions_local.timers.monitor import ScheduleMonitor
from functions_local.timers.trigger import TimerRunner
from functions_local.worker import Worker

_log = logging.getLogger(__name__)

#: Seconds to wait for invocations in flight when the host stops. Triggers redeliver unfinished work.
STOP_GRACE = 1.0
#: Seconds to wait for the end of a listener's receive when the host stops.
_LISTENING_ENDS = 0.2


class Listener(Protocol):
    """A trigger that takes work from a service."""

    async def run(self) -> None:
        """Receive work, until cancelled."""

    def stop(self) -> None:
        """Receive no more work."""

    @property
    def is_idle(self) -> bool:
        """Whether no received work is in process."""

    async def close(self) -> None:
        """Release the work in process, and disconnect."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The options of the command line."""

    app: Path
    port: int
    data: Path
    #: Folder of the Durable hub and the timers, shared with other hosts; None: `data`, not shared.
    shared: Path | None
    enforce_auth: bool
    #: Leave out the functions that the host does not support, instead of refusing to start.
    skip_unsupported: bool = False
    #: Services that must answer before the app is loaded.
    after: Sequence[Address] = ()
    #: Modules to import before the app.
    preload: Sequence[str] = ()

    @property
    def state(self) -> Path:
        """The folder of the Durable hub and the timers."""
        return self.shared or self.data


class Host:
    """One function app, run in this process."""

    def __init__(self, options: HostOptions, environment: Mapping[str, str]) -> None:
        """Read the configuration and reserve the port. Raises StartError when one of them cannot be used."""
        self._options = options
        self._settings = AppSettings.load(options.app, environment)
        self._host_json = load_host_json(options.app, self._settings)
        self._keys = Keys.kept_in(options.data) if options.enforce_auth else Keys(None)
        self._named_connections = ConnectionSettings(self._settings)
        self._connections = Connections(self._named_connections)
        self._outputs = Outputs(self._connections)
        self._worker = Worker(options.app)
        self.invocations = Invocations(self._worker, self._outputs, timeout=self._host_json.function_timeout)
        self._watchdog = LoopWatchdog(self.invocations.label)
        self._server = HttpServer(options.port, self._host_json.extensions.http.custom_headers)
        self._engine: DurableEngine | None = None
        self._http: HttpFunctions | None = None
        self._listeners: list[Listener] = []
        self._listening: list[asyncio.Task[None]] = []
        self._timing: list[asyncio.Task[None]] = []

    async def start(self) -> str:
        """Start all parts and return the host's URL.

        When it returns, the functions are loaded and all triggers listen; until then, connections are
        refused. It waits without a timeout for the services of `after`. Raises StartError when the app
        cannot be loaded or its bindings cannot be served.
        """
        self._settings.export(os.environ, self._options.app, self._server.address)
        self._worker.enter_app_folder()
        preload(self._options.preload)
        await until_all_answer(self._options.after)
        functions = await load_functions(
            self._worker,
            self._settings,
            self._options.app,
            skip_unsupported=self._options.skip_unsupported,
        )
        routes = RouteTable(functions, self._host_json.extensions.http.route_prefix)
        timers = self._timers(functions)
        self._listeners = [*self._service_bus(functions), *self._event_hubs(functions)]
        await self._start_engine(functions)
        await self._serve(functions, routes)
        self._watchdog.start()
        self._timing = [_supervised(timer.run()) for timer in timers]
        self._listening = [_supervised(listener.run()) for listener in self._listeners]
        _list_functions(functions, routes, self._server.url)
        return self._server.url

    async def stop(self) -> bool:
        """Accept no new work, wait `STOP_GRACE` for invocations in flight, then release messages and locks.

        Return whether all invocations have finished; if not, a thread may still be running one.
        """
        if self._http is not None:
            self._http.stop()
        for listener in self._listeners:
            listener.stop()
        await _end(self._listening, within=_LISTENING_ENDS)
        # The client library takes half a second to close a receiver: idle receivers are closed meanwhile.
        idle = [listener.close() for listener in self._listeners if listener.is_idle]
        busy = [listener for listener in self._listeners if not listener.is_idle]
        engine = self._engine.stop() if self._engine is not None else asyncio.sleep(0)
        stopping = asyncio.gather(engine, *idle)
        finished = await self.invocations.drain(STOP_GRACE)
        await stopping
        await _end(self._timing, within=0)
        await asyncio.gather(self._server.close(), *(listener.close() for listener in busy))
        self._watchdog.stop()
        with suppress(Exception):  # an unreachable broker cannot be closed cleanly
            await self._outputs.close()
            await self._connections.close()
            await self._named_connections.close()
        self._worker.stop()
        return finished

    def _timers(self, functions: Sequence[Function]) -> list[TimerRunner]:
        is_shared = self._options.shared is not None
        monitor = ScheduleMonitor(self._options.state / "timers", is_shared=is_shared)
        return [
            TimerRunner(function, function.trigger, monitor, self.invocations)
            for function in functions
            if isinstance(function.trigger, TimerTrigger)
        ]

    def _service_bus(self, functions: Sequence[Function]) -> list[ServiceBusListener]:
        self._outputs.check(functions)
        options = self._host_json.extensions.service_bus
        return [
            ServiceBusListener(
                function,
                function.trigger,
                self._connections.client(function.trigger.connection, used_by=f"function {function.name}"),
                self.invocations,
                options,
            )
            for function in functions
            if isinstance(function.trigger, ServiceBusTrigger)
        ]

    def _event_hubs(self, functions: Sequence[Function]) -> Sequence[Listener]:
        triggers = [(each, each.trigger) for each in functions if isinstance(each.trigger, EventHubTrigger)]
        if not triggers:
            return []
        if self._options.shared is not None:
            names = ", ".join(function.name for function, _ in triggers)
            raise StartError(f"hosts that share {self._options.shared} cannot read event hubs ({names})")
        # Imported here: with the client of blobs, the import takes a third of a second.
        from functions_local.event_hubs.trigger import EventHubListener  # noqa: PLC0415

        options, settings = self._host_json.extensions.event_hubs, self._named_connections
        return [
            EventHubListener(function, trigger, settings, self.invocations, options)
            for function, trigger in triggers
        ]

    async def _start_engine(self, functions: Sequence[Function]) -> None:
        if not uses_durable(functions):
            return
        self._engine = make_engine(
            functions,
            self.invocations,
            self._host_json.extensions.durable_task,
            EngineOptions(is_shared=self._options.shared is not None, stop_grace=STOP_GRACE),
            self._options.state / "durable",
        )
        self.invocations.durable_client = self._engine.client_binding(self._server.url)
        self._engine.make_starts_cheaper(self._server.url)
        await start_engine(self._engine)

    async def _serve(self, functions: Sequence[Function], routes: RouteTable) -> None:
        admin = Admin(functions, routes, self.invocations, self._keys, self._engine_figures)
        self._http = HttpFunctions(routes, self.invocations, self._keys)
        engine_routes = self._engine.routes() if self._engine is not None else []
        await self._server.serve([*engine_routes, *admin.routes()], self._http)

    def _engine_figures(self) -> Mapping[str, int]:
        return self._engine.figures() if self._engine is not None else {}


def _supervised(loop: Coroutine[None, None, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(loop)
    task.add_done_callback(_report_failure)
    return task


async def _end(loops: Sequence[asyncio.Task[None]], *, within: float) -> None:
    """Wait at most `within` seconds for the end of the loops, then cancel them."""
    if loops:
        await asyncio.wait(loops, timeout=within)
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


def _report_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("a trigger stopped because of an error in the host", exc_info=error)


def _list_functions(functions: Sequence[Function], routes: RouteTable, url: str) -> None:
    paths = {route.function.name: route.path for route in routes.routes}
    for function in functions:
        trigger = function.trigger
        what = type(trigger).__name__.removesuffix("Trigger")
        if isinstance(trigger, HttpTrigger):
            what = f"{what} {','.join(sorted(trigger.methods))} {url}{paths[function.name]}"
        elif isinstance(trigger, TimerTrigger):
            what = f"{what} {trigger.schedule}"
        elif isinstance(trigger, ServiceBusTrigger):
            what = f"{what} {trigger.queue}{' (many)' if trigger.many else ''}"
        elif isinstance(trigger, EventHubTrigger):
            what = f"{what} {trigger.hub}, consumer group {trigger.consumer_group}"
        _log.info("%s: %s", function.name, what)
