"""One instance of the application: its functions, its tasks, its clock; and its end by a crash."""

from __future__ import annotations

import asyncio
import contextvars
import json
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from functions.wiring import Wiring
from tests.simulation.hosts.clock import HostClock
from tests.simulation.hosts.seam import Seam
from tests.simulation.world.fate import Place
from tests.simulation.world.owner import OWNER
from tests.simulation.world.world import World

_CLIENT = json.dumps(
    {"taskHubName": "sim", "creationUrls": {}, "managementUrls": {}, "rpcBaseUrl": "http://durable.sim/"}
)


@dataclass(frozen=True, slots=True)
class QueueTrigger:
    """A function that a queue triggers: its name on every host, and the parameter for the messages."""

    queue: str
    function: str
    parameter: str
    is_batch: bool


class Host:
    """What the Functions host and its worker are to the application."""

    def __init__(self, world: World, name: str, clock: HostClock) -> None:
        self.name = name
        self.clock = clock
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.frozen_until = 0.0
        #: Names and versions of the workflows that it has.
        self.workflows: frozenset[tuple[str, int]] = frozenset()
        self.on_crash: Callable[[], None] = lambda: None
        self._world = world
        self._is_up = True
        self._functions: dict[str, Any] = {}
        self._seams = {place: Seam(world, self, place) for place in Place}

    @property
    def is_up(self) -> bool:
        """Tell whether it has not crashed."""
        return self._is_up

    def seam(self, place: Place) -> Seam:
        """Give its way to a service."""
        return self._seams[place]

    def serve(self, wiring: Wiring) -> None:
        """Take the functions of the application."""
        app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
        for blueprint in wiring.blueprints():
            app.register_functions(blueprint)
        self._functions = {each.get_function_name(): each for each in app.get_functions()}

    @property
    def queue_triggers(self) -> Sequence[QueueTrigger]:
        """Give the functions that queues trigger."""
        triggers = []
        for name, function in self._functions.items():
            for binding in function.get_bindings():
                if binding.type == "serviceBusTrigger":
                    is_batch = binding.cardinality is func.Cardinality.MANY
                    triggers.append(QueueTrigger(binding.queue_name, name, binding.name, is_batch))
        return triggers

    def run[ResultT](self, work: Coroutine[Any, Any, ResultT]) -> asyncio.Task[ResultT]:
        """Do work as this host's: a crash ends it."""
        context = contextvars.Context()
        context.run(OWNER.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    async def call(self, function: str, given: Mapping[str, Any]) -> Any:
        """Run a function with its bindings."""
        found = self._functions[function]
        clients = {each.name: _CLIENT for each in found.get_bindings() if each.type == "durableClient"}
        return await found.get_user_function()(**given, **clients)

    def orchestrate(self, function: str, context: str) -> str:
        """Replay an orchestrator; give its state. Raises what it raises."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the SDK warns of events that come before their wait
            return str(self._functions[function].get_user_function()(context))

    def crash(self) -> None:
        """End it at once: nothing that it still does has any effect."""
        if not self._is_up:
            return
        self._is_up = False
        self._world.tell(self.name, "** crashes")
        for task in list(self.tasks):
            task.cancel()
        self.on_crash()
