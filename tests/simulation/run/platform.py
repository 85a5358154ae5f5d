"""The simulated platform and its settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import Any

import azure.functions as func

from functions.agents.endpoints import load_endpoints
from functions.settings import Settings, load_settings
from functions.wiring import Wiring
from functions.workflows.registration import Registration
from tests.simulation.bus.client import SimulatedBusClient
from tests.simulation.bus.namespace import Namespace
from tests.simulation.bus.trigger import Triggers
from tests.simulation.drawn.workflows import AGENTS, QUEUED_AGENT
from tests.simulation.durable.hub import DurableRequests, TaskHub
from tests.simulation.hosts.host import Host, HostClock, Running, of_the_outside
from tests.simulation.remotes.ledger import RemoteLedger
from tests.simulation.remotes.service import RemoteServices
from tests.simulation.remotes.session import SimulatedSession
from tests.simulation.tables.service import SimulatedTransport, TableService, client_at_start
from tests.simulation.world.world import Place, World

#: The part of services with a limit.
_LIMITED = 0.1


@dataclass(frozen=True, slots=True)
class SimulatedTimes:
    """Times are in seconds."""

    sweep: int = 10
    pick_up: int = 20
    agents_pick_up: int = 60
    threshold: int = 3
    extended_waits: tuple[int, ...] = (10, 30)
    skew: int = 5
    breaker_open: int = 5
    shards: int = 1
    alerts_per_minute: int = 20
    steps_at_once: int = 16
    #: How many calls of an Agent's service may be in flight, for those that have a limit.
    limits: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def drawn(cls, chance: Random) -> SimulatedTimes:
        """Draw them; few steps at once, by another chance, so that what follows is drawn as it was before."""
        other = Random(chance.getstate()[1][0])
        return cls(
            steps_at_once=other.choice((16, 16, 4, 2)),
            sweep=chance.choice((15, 30, 60)),
            pick_up=chance.choice((15, 30, 60)),
            agents_pick_up=chance.choice((10, 20, 60)),
            threshold=chance.choice((1, 3)),
            extended_waits=chance.choice(((5,), (10,), (10, 30))),
            shards=chance.choice((1, 1, 1, 2)),
            alerts_per_minute=chance.choice((0, 1, 3, 20)),
            limits={each: chance.choice((1, 2, 4)) for each in AGENTS if chance.random() < _LIMITED},
        )

    @property
    def settings(self) -> dict[str, str]:
        """Give the settings that set these times."""
        limits = {f"AGENT_{each.upper()}_AT_ONCE": str(most) for each, most in self.limits.items()}
        return limits | {
            "STATE_SHARDS": str(self.shards),
            "STEPS_AT_ONCE": str(self.steps_at_once),
            "PICK_UP_SECONDS": str(self.pick_up),
            "AGENTS_PICK_UP_SECONDS": str(self.agents_pick_up),
            "SUPERVISOR_THRESHOLD": str(self.threshold),
            "EXTENDED_WAITS": ",".join(map(str, self.extended_waits)),
            "SKEW_SECONDS": str(self.skew),
            "ALERTS_PER_MINUTE": str(self.alerts_per_minute),
            "BREAKER_OPEN_SECONDS": str(self.breaker_open),
        }

    @property
    def most_recoveries(self) -> int:
        """Give how often a task is recovered in one direction before it is given up."""
        return self.threshold + len(self.extended_waits)

    def termination(self, steps: int, step: float) -> float:
        """Bound the time of a task of so many steps, each of at most so many seconds, when nothing fails.

        Each attempt may have to wait for the skew and a sweep; there are `most_recoveries` + 1 attempts to
        do, and as many to undo, each step once after another.
        """
        attempt = max(step + self.agents_pick_up, self.pick_up) + self.skew + 2 * self.sweep
        direction = (self.most_recoveries + 1) * attempt + sum(self.extended_waits)
        return 2 * direction + 2 * steps * attempt


#: The queue on which callers get their notices.
NOTICES = "notices-demo"
_SETTINGS = {
    "StateStore": "DefaultEndpointsProtocol=https;AccountName=sim;AccountKey=c2lt"
    ";EndpointSuffix=core.windows.net",
    "ServiceBusConnection": "Endpoint=sb://sim;SharedAccessKeyName=k;SharedAccessKey=s",
    "REPLY_QUEUES": NOTICES,
    "ALERT_WEBHOOK_URL": "https://alerts.example/post",
    "STATE_SHARDS": "2",
}


class Platform:
    """Everything that one run needs. `settings` are the application's, beside those for every run."""

    def __init__(self, world: World, settings: Mapping[str, str]) -> None:
        self.world = world
        self.tables = TableService(world.chance("pages"), lambda: world.now)
        self.namespace = Namespace(world)
        self.services = RemoteServices(world, RemoteLedger())
        self.running = Running(world)
        self.hub = TaskHub(world, self.running)
        self.requests = DurableRequests(self.hub)
        self.triggers = Triggers(world, self.namespace, self.running)
        self._environment = {**_SETTINGS, **settings}
        self._settings: Settings | None = None
        #: Reading settings is half of a host's start: they are the same for all.
        self._endpoints = cache(load_endpoints)
        #: The part of a timer's times that it misses.
        self.missed = 0.0

    def start_host(
        self, name: str, registrations: Sequence[Registration], clock: HostClock | None = None
    ) -> Host:
        """Start an instance of the application with these workflows."""
        world = self.world
        host = Host(world, name, clock or HostClock(world))
        ids = world.chance("ids")
        outside = of_the_outside(
            settings=self._environment | _addresses(registrations),
            endpoints=self._endpoints,
            clock=host.clock,
            new_id=lambda: f"{ids.getrandbits(128):032x}",
            transport=SimulatedTransport(self.tables, host.seam(Place.TABLES)),
            sync_tables=partial(client_at_start, self.tables),
            bus=SimulatedBusClient(world, self.namespace, host.seam(Place.BUS)),
            session=SimulatedSession(self.services, host.seam(Place.REMOTE), host.clock),
        )
        with outside:
            is_first, self._settings = self._settings is None, self._settings or load_settings()
            wiring = Wiring(self._settings, registrations)
            if is_first:
                wiring.prepare()
            host.serve(wiring)
        world.tell(name, "** starts")
        self.running.add(host)
        return host

    def every(self, seconds: float, function: str) -> None:
        """Have a timer's function run on one host every so many seconds."""
        self.world.loop.call_later(seconds, self._tick, seconds, function)

    def tick(self, function: str) -> None:
        """Have a timer's function run on one host, if any is up."""
        host = self.running.any("hosts of timers")
        if host is not None:
            host.run(host.call(function, {"timer": None}))

    def _tick(self, seconds: float, function: str) -> None:
        if self.world.chance("missed timers").random() >= self.missed:
            self.tick(function)
        self.every(seconds, function)

    async def http(self, host: Host, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request to a host; give status and body. One that crashes answers 0."""
        content = b"" if body is None else json.dumps(body).encode()
        function = "operations" if path.startswith("/api/ops") else "api"
        headers = {"content-type": "application/json", "host": "sim", "X-Requested-With": "sim"}
        request = func.HttpRequest(method, f"https://sim{path}", headers=headers, body=content)
        task = host.run(host.call(function, {"req": request, "context": None}))
        await asyncio.wait([task])
        if task.cancelled():
            return 0, None
        answer = task.result()
        return answer.status_code, json.loads(answer.get_body() or b"null")


def _addresses(registrations: Sequence[Registration]) -> dict[str, str]:
    """Set the address of each Agent's service."""
    versions = (version for each in registrations for version in each.versions)
    agents = {*AGENTS, QUEUED_AGENT} | {
        step.agent for version in versions for step in version.steps if not step.via.waits
    }
    return {f"{each.upper().replace('-', '_')}_URL": f"https://services.example/{each}" for each in agents}
