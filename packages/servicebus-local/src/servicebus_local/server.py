"""Puts the broker together, starts and stops it: log, queues, AMQP listener, admin endpoint."""

from __future__ import annotations

import asyncio
import errno
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from .admin.endpoint import AdminEndpoint
from .amqp.connection import Connection
from .amqp.service import Service
from .broker.entity import Machinery
from .broker.faults import FaultBoard
from .broker.namespace import Namespace
from .broker.timers import Timers
from .config import BrokerConfig
from .storage.group_commit import GroupCommit
from .storage.journal import Journal
from .storage.schema import open_log

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"


class PortRefused(Exception):  # noqa: N818 - the port is refused; the text says why
    """A port can not be listened on. The text names the port and its option in one line."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a started broker answers."""

    port: int
    admin_port: int


class Broker:
    """A running broker, from `start` to `stop`. `failed` is set when its log can not be written."""

    def __init__(self, endpoints: Endpoints, resources: AsyncExitStack, failed: asyncio.Event) -> None:
        self.endpoints = endpoints
        self.failed = failed
        self._resources = resources

    @classmethod
    async def start(cls, config: BrokerConfig, data: Path, *, port: int = 0, admin_port: int = 0) -> Broker:
        """Start a broker on a data folder; port 0 means any free one.

        Raises LogRefusedError, PortRefused, and sqlite3.Error for a damaged log.
        """
        failed = asyncio.Event()
        async with AsyncExitStack() as resources:
            log = open_log(data)
            resources.callback(log.close)
            loop = asyncio.get_running_loop()
            commit = GroupCommit(log, loop, failed.set)
            resources.callback(commit.close)
            timers = Timers(loop)
            resources.callback(timers.close)
            faults = FaultBoard()
            namespace = Namespace(
                config.queues, config.auto_create, Machinery(Journal(log, commit), timers, faults)
            )
            _log.info("%d messages in the log", namespace.load())
            service = Service(namespace)
            resources.callback(service.shut_down)
            bound_port = await _listen(service, port, resources)
            admin = AdminEndpoint(service, faults).application()
            endpoints = Endpoints(bound_port, await _serve_admin(admin, admin_port, resources))
            return cls(endpoints, resources.pop_all(), failed)

    async def stop(self) -> None:
        """Stop listening, tell the clients, and close the log."""
        await self._resources.aclose()


async def _listen(service: Service, port: int, resources: AsyncExitStack) -> int:
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(lambda: Connection(service), HOST, port)
    except OSError as error:
        raise _port_refused(error, port, "--port") from error
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
        raise _port_refused(error, port, "--admin-port") from error
    bound: int = runner.addresses[0][1]
    return bound


def _port_refused(error: OSError, port: int, option: str) -> PortRefused:
    reason = (
        "is in use by another program"
        if error.errno == errno.EADDRINUSE
        else f"is refused ({error.strerror})"
    )
    return PortRefused(
        f"port {port} {reason}: stop that program, or choose another port with {option} (0 for any)"
    )
