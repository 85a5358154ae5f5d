"""Starts and stops the broker: log, queues, hubs, AMQP listener, admin endpoint."""

from __future__ import annotations

import asyncio
import errno
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from servicebus_local.admin.endpoint import AdminEndpoint
from servicebus_local.amqp.service import Service
from servicebus_local.broker.entity import Machinery
from servicebus_local.broker.faults import FaultBoard
from servicebus_local.broker.journal import Journal
from servicebus_local.broker.timers import TimerHeap
from servicebus_local.config import BrokerConfig
from servicebus_local.hubs.hub import Hub, Retention
from servicebus_local.hubs.journal import HubJournal
from servicebus_local.hubs.partition import Tail
from servicebus_local.namespace import Namespace
from servicebus_local.storage.group_commit import GroupCommit
from servicebus_local.storage.log import MessageLog
from servicebus_local.storage.reader import LogReader

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"


class PortError(Exception):
    """The broker can't listen on a port. The text names the port and its option in one line."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The ports of a started broker."""

    port: int
    admin_port: int


class Broker:
    """A running broker, from `start` to `stop`. `failed` is set when its log can't be written."""

    def __init__(self, endpoints: Endpoints, resources: AsyncExitStack, failed: asyncio.Event) -> None:
        self.endpoints = endpoints
        self.failed = failed
        self._resources = resources

    @classmethod
    async def start(cls, config: BrokerConfig, data: Path, *, port: int = 0, admin_port: int = 0) -> Broker:
        """Start a broker on a data folder; port 0 means any free one.

        Raises LogError, PortError, and sqlite3.Error for a damaged log.
        """
        failed = asyncio.Event()
        async with AsyncExitStack() as resources:
            log = MessageLog(data)
            resources.callback(log.close)
            loop = asyncio.get_running_loop()
            commit = GroupCommit(log, loop, failed.set)
            resources.callback(commit.close)
            timers = TimerHeap(loop)
            resources.callback(timers.close)
            faults = FaultBoard()
            reader = LogReader(log.path, loop)
            resources.callback(reader.close)
            hubs = _hubs(config, HubJournal(log, commit, reader), faults)
            machinery = Machinery(Journal(log, commit), timers, faults, config.expire_on_receive)
            namespace = Namespace(config.queues, machinery, hubs)
            Retention(hubs, timers)
            _log.info("%d messages in the log", namespace.load())
            _log.info(
                "every key and token is accepted; commits survive a killed process, not a power failure"
            )
            service = Service(namespace)
            resources.callback(service.shut_down)
            bound_port = await _listen(service, port, resources)
            admin = AdminEndpoint(service, faults).application()
            endpoints = Endpoints(bound_port, await _serve_admin(admin, admin_port, resources))
            return cls(endpoints, resources.pop_all(), failed)

    async def stop(self) -> None:
        """Stop listening, notify the clients, and close the log."""
        await self._resources.aclose()


def _hubs(config: BrokerConfig, journal: HubJournal, faults: FaultBoard) -> list[Hub]:
    tail = Tail()
    return [Hub(name, settings, journal, tail, faults) for name, settings in config.hubs.items()]


async def _listen(service: Service, port: int, resources: AsyncExitStack) -> int:
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(service.accept, HOST, port)
    except OSError as error:
        raise _port_error(error, port, "--port") from error
    resources.callback(server.close)
    bound: int = server.sockets[0].getsockname()[1]
    return bound


async def _serve_admin(application: web.Application, port: int, resources: AsyncExitStack) -> int:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    resources.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, HOST, port).start()
    except OSError as error:
        raise _port_error(error, port, "--admin-port") from error
    bound: int = runner.addresses[0][1]
    return bound


def _port_error(error: OSError, port: int, option: str) -> PortError:
    reason = (
        "is in use by another program"
        if error.errno == errno.EADDRINUSE
        else f"is refused ({error.strerror})"
    )
    return PortError(
        f"port {port} {reason}: stop that program, or choose another port with {option} (0 for any)"
    )
