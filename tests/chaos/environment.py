"""The environment of a run: the platform, its hosts behind proxies, and the remote services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from local.platform import ANY_PORTS, ROOT, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Blueprint, Stages, platform_stages
from tests.chaos.callers import REPLY_QUEUE
from tests.chaos.plan import InjectedFault, Limits, Plan
from tests.chaos.remotes import Remotes

_CHUNK = 65_536


class ProxyMode(StrEnum):
    """How the proxy treats connections and data."""

    #: Everything is forwarded at once.
    PASSING = "passing"
    #: Connections are closed as soon as they are opened.
    CUTTING = "cutting"
    #: Nothing is forwarded until the mode changes.
    HOLDING = "holding"
    #: Requests are forwarded, and answers are not until the mode changes.
    HOLDING_ANSWERS = "holding answers"


class Proxy:
    """Forwards connections to one port of this machine."""

    def __init__(self) -> None:
        self._target: int | None = None
        self.port = 0
        self._mode = ProxyMode.PASSING
        self._changed = asyncio.Event()
        #: The connections or pieces of data that the latest mode affected.
        self.affected = 0
        self._free = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Proxy]:
        """Accept connections until the block ends, which closes them all."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            left = tuple(self._writers)
            self._cut_all()
            await asyncio.gather(*(writer.wait_closed() for writer in left), return_exceptions=True)

    def forward_to(self, port: int) -> None:
        """Choose the port that connections are forwarded to; before that they are closed."""
        self._target = port

    @asynccontextmanager
    async def mode(self, mode: ProxyMode) -> AsyncIterator[None]:
        """Use this mode until the block ends; wait for the end of another one before that."""
        async with self._free:
            self.affected = 0
            self._change(mode)
            try:
                yield
            finally:
                self._change(ProxyMode.PASSING)

    def _change(self, mode: ProxyMode) -> None:
        self._mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        if mode is ProxyMode.CUTTING:
            self.affected += len(self._connections)
            self._cut_all()

    def _cut_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connected(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._open(writer):
            if self._target is None or self._mode is ProxyMode.CUTTING:
                self.affected += 1
                writer.transport.abort()
                return
            with suppress(OSError):
                onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._target)
                async with self._open(onward_writer):
                    requests = asyncio.create_task(self._pass(reader, onward_writer))
                    answers = asyncio.create_task(self._pass(onward_reader, writer, are_answers=True))
                    try:
                        await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        requests.cancel()
                        answers.cancel()
                        await asyncio.gather(requests, answers, return_exceptions=True)

    @asynccontextmanager
    async def _open(self, writer: asyncio.StreamWriter) -> AsyncIterator[None]:
        """Keep one end of a connection in mind until it is closed: what is not, `serving` cuts at its end."""
        self._writers.add(writer)
        try:
            yield
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._writers.discard(writer)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_answers: bool = False
    ) -> None:
        while data := await reader.read(_CHUNK):
            while self._mode is ProxyMode.HOLDING or (
                are_answers and self._mode is ProxyMode.HOLDING_ANSWERS
            ):
                self.affected += 1
                await self._changed.wait()
            writer.write(data)
            await writer.drain()


class ChaosHost:
    """A host with a proxy to each dependency.

    The first host is a part of the whole platform. Each further host is a platform without them: it uses the
    tables and the broker of the first one, and has a Durable hub of its own.
    """

    def __init__(self, data: Path, settings: Mapping[str, str], blueprint: Blueprint) -> None:
        """Make the host; `settings` are the application settings of all hosts."""
        #: Held while this host is killed, paused or cut off: a host that starts needs its dependencies.
        self.free = asyncio.Lock()
        self.tables, self.bus, self.services = Proxy(), Proxy(), Proxy()
        options = PlatformOptions(ports=ANY_PORTS, data=data, app=ROOT, settings=settings)
        self.platform = Platform(options, blueprint)

    def proxy_of(self, fault: InjectedFault) -> Proxy:
        """Return the proxy in which a partition is injected. Raises `KeyError` for other faults."""
        return {
            InjectedFault.CUT_FROM_TABLES: self.tables,
            InjectedFault.CUT_FROM_BUS: self.bus,
            InjectedFault.CUT_FROM_SERVICES: self.services,
        }[fault]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Accept connections to the proxies until the block ends."""
        async with AsyncExitStack() as stack:
            for proxy in (self.tables, self.bus, self.services):
                await stack.enter_async_context(proxy.serving())
            yield

    def connections(self, platform: Addresses, services: int) -> dict[str, str]:
        """Forward the proxies to a platform and to the services' port; return the settings of the host."""
        self.services.forward_to(services)
        self.bus.forward_to(platform.ports.service_bus)
        self.tables.forward_to(platform.ports.table)
        seen = Addresses(replace(platform.ports, table=self.tables.port, service_bus=self.bus.port))
        return {
            "AzureWebJobsStorage": platform.storage_connection,
            "ServiceBusConnection": seen.service_bus_connection,
            "StateStore": seen.storage_connection,
        }

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """End the host with SIGKILL, and start it again after the block."""
        await self.platform.kill(PartName.HOST)
        yield
        await self.platform.start(PartName.HOST)


class RunEnvironment:
    """The platform, hosts and remote services of one run, on free ports, with all state below `folder`."""

    def __init__(self, plan: Plan, limits: Limits, folder: Path, hosts: int) -> None:
        self.remotes = Remotes(plan.refused)
        self._limits = limits
        self._folder = folder
        self.hosts = [self._host(number) for number in range(hosts)]
        #: The platform with Azurite, the broker and the first host.
        self.platform = self.hosts[0].platform

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run everything until the block ends. Raises `PlatformError`."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.remotes.serving())
            for host in self.hosts:
                await stack.enter_async_context(host.serving())
            for platform in self._platforms:
                await stack.enter_async_context(platform)
            yield

    async def unless_a_part_fails[Result](self, work: Awaitable[Result]) -> Result:
        """Return the result of `work`. Raises `PartFailedError` when a part ends first."""
        for platform in self._platforms:
            work = platform.unless_a_part_fails(work)
        return await work

    @property
    def _platforms(self) -> list[Platform]:
        return [host.platform for host in self.hosts]

    def _host(self, number: int) -> ChaosHost:
        # A further host uses the parts of the first one's platform.
        def parts(options: PlatformOptions, addresses: Addresses) -> Stages:
            whole = self.platform.addresses if number else addresses
            host = self.hosts[number]
            own = host.connections(whole, self.remotes.port) | self.remotes.settings(host.services.port)
            settings = {**options.settings, **own}
            stages = platform_stages(replace(options, settings=settings), addresses)
            if number == 0:
                return stages
            return [[part for stage in stages for part in stage if part.name is PartName.HOST]]

        settings = {**self._limits.settings, "REPLY_QUEUES": REPLY_QUEUE, "STATE_SHARDS": "4"}
        return ChaosHost(self._folder / f"host-{number}", settings, parts)
