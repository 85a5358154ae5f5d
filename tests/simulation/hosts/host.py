"""Simulated hosts: their clocks, what is replaced in them, and how they run and crash."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

import azure.durable_functions as df
import azure.functions as func

from functions import wiring
from functions.agents import remote
from functions.messages import queues
from functions.store import connect, group_pipeline, task_writer
from functions.telemetry import changes
from functions.wiring import Wiring
from tests.simulation.world.world import (
    OWNER,
    START,
    AnswerLostFault,
    BusyFault,
    Mishap,
    NotSentFault,
    Place,
    World,
)


class HostClock:
    """Tells the time as this host has it: `skew` is in seconds, `rate` in its seconds for a true one."""

    def __init__(self, world: World, *, skew: float = 0.0, rate: float = 1.0) -> None:
        self._world = world
        self._rate = rate
        self._since = world.loop.time()
        self._then = self._since + skew
        #: What it jumped ahead when it was set right.
        self._jumped = timedelta()

    def now(self) -> datetime:
        """Give the time now, in UTC."""
        passed = self._world.loop.time() - self._since
        return START + timedelta(seconds=self._then + passed * self._rate)

    def by_timers(self) -> datetime:
        """Give the time by what timers count that were begun before it was set right."""
        return self.now() - self._jumped

    def step(self, seconds: float) -> None:
        """Set the clock on, or back."""
        self._then += seconds

    def set_right(self) -> None:
        """Have it tell the true time from now on."""
        before = self.now()
        self._since = self._then = self._world.loop.time()
        self._rate = 1.0
        self._jumped = max(timedelta(), self.now() - before)


class Crashing(Protocol):
    """A host, as its seams know it."""

    name: str
    frozen_until: float

    @property
    def is_up(self) -> bool:
        """Tell whether it has not crashed."""

    def crash(self) -> None:
        """End it at once."""


class Seam:
    """One host's way to one service."""

    def __init__(self, world: World, host: Crashing, place: Place) -> None:
        self._world = world
        self._host = host
        self._place = place

    async def carry_out[ResultT](self, what: str, act: Callable[[], ResultT]) -> ResultT:
        """Have a request carried out. Raises `NotSentFault`, `AnswerLostFault` and `BusyFault`."""
        world, host = self._world, self._host
        self._check()
        fate = world.fates.of(host.name, self._place, what)
        await self._way(fate.there)
        if fate.mishap is not None:
            world.fault(f"{self._place}: {fate.mishap.value}", host.name, what)
        if fate.kind is not None:
            world.met(fate.kind)
        match fate.mishap:
            case Mishap.CRASH_BEFORE:
                await self._crash()
            case Mishap.NOT_SENT:
                raise NotSentFault(what)
            case Mishap.BUSY:
                raise BusyFault(what)
            case _:
                pass
        result = act()
        world.tell(host.name, f"{self._place} {what}")
        if fate.mishap is Mishap.CRASH_AFTER:
            await self._crash()
        if fate.mishap is Mishap.ANSWER_LOST:
            raise AnswerLostFault(what)
        await self._way(fate.back)
        return result

    async def _way(self, seconds: float) -> None:
        if seconds:
            await asyncio.sleep(seconds)
        while self._host.frozen_until > self._world.loop.time():
            await self._world.sleep_until(self._host.frozen_until)
        self._check()

    def _check(self) -> None:
        if not self._host.is_up:
            raise asyncio.CancelledError

    async def _crash(self) -> None:
        self._host.crash()
        await asyncio.get_running_loop().create_future()


_MODELS = "azure.durable_functions.models"
_DURABLE = f"{_MODELS}.DurableOrchestrationClient"
_HISTORY = f"{_MODELS}.history.HistoryEvent"


@contextmanager
def of_chance(random: Random, now: Callable[[], float]) -> Iterator[None]:
    """Have all that the application leaves to chance, or to this process's clock, decided by the seed."""

    def uuid4() -> Any:
        return type("Id", (), {"hex": f"{random.getrandbits(128):032x}"})

    with ExitStack() as stack:
        for module in (remote, task_writer, changes):
            stack.enter_context(patch.object(module, "SystemRandom", lambda: random))
        stack.enter_context(patch.object(queues, "_random", random))
        stack.enter_context(patch("functions.web.problems.uuid.uuid4", uuid4))
        stack.enter_context(patch.object(group_pipeline, "time", now))
        yield


@contextmanager
def of_durable(post: Callable[..., Any], delete: Callable[..., Any]) -> Iterator[None]:
    """Have the SDK's Durable clients send their requests there."""
    with ExitStack() as stack:
        stack.enter_context(
            patch.multiple(sys.modules[_DURABLE], post_async_request=post, delete_async_request=delete)
        )
        # The SDK reads the times of a history by a parser of free text: a seventh of a seed's time.
        stack.enter_context(patch.object(sys.modules[_HISTORY], "dt_parse", datetime.fromisoformat))
        yield


@contextmanager
def of_the_outside(
    *,
    settings: Mapping[str, str],
    endpoints: Callable[..., Any],
    clock: Any,
    new_id: Callable[[], str],
    transport: Any,
    sync_tables: Callable[..., Any],
    bus: Any,
    session: Any,
) -> Iterator[None]:
    """Have a `Wiring` that is made meanwhile meet these."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, settings, clear=True))
        stack.enter_context(
            patch.multiple(
                wiring,
                SystemClock=lambda: clock,
                load_endpoints=endpoints,
                new_id=new_id,
                connect_bus=lambda _connection: lambda: bus,
                http_session=lambda: session,
                once_session=lambda: session,
            )
        )
        for name in ("AioHttpTransport", "TableTransport"):
            stack.enter_context(patch.object(connect, name, lambda *_, **__: transport))
        stack.enter_context(patch.object(connect, "connect_at_start", sync_tables))
        yield


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


#: The part of requests that go to any host.
_ANOTHER = 0.1


class Running:
    """Hosts by chance."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._hosts: list[Host] = []
        self._told: list[Callable[[Host], None]] = []
        self._usual: Host | None = None

    @property
    def hosts(self) -> list[Host]:
        """Give all that are up."""
        return [each for each in self._hosts if each.is_up]

    def drain(self, host: Host) -> None:
        """Give a host nothing more; what it does, it does to the end."""
        self._hosts = [each for each in self.hosts if each is not host]
        self._usual = None if self._usual is host else self._usual

    def on_start(self, told: Callable[[Host], None]) -> None:
        """Tell of each host that comes up."""
        self._told.append(told)

    def add(self, host: Host) -> None:
        """Add a host that has come up."""
        self._hosts = [*self.hosts, host]
        for each in self._told:
            each(host)

    def any(self, use: str, is_able: Callable[[Host], bool] = lambda _: True) -> Host | None:
        """Give one that is up and able, and is not frozen if another is not; None when none is up."""
        up = [each for each in self.hosts if is_able(each)]
        awake = [each for each in up if each.frozen_until <= self._world.loop.time()]
        return self._world.chance(use).choice(awake or up) if up else None

    def usual(self, use: str) -> Host | None:
        """Give mostly the one that was given before, if it is awake: each first request of a host is dear."""
        host = self.any(use)
        if host is None or self._world.chance(use).random() < _ANOTHER:
            return host
        there = self._usual
        if there is None or not there.is_up or there.frozen_until > self._world.loop.time():
            self._usual = there = host
        return there
