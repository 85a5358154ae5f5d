"""A broker inside the process of a test, on free ports: `with running_broker(config) as broker:`."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from servicebus_local.config import BrokerConfig
from servicebus_local.server import HOST, Broker, Endpoints

_HTTP_SECONDS = 30


def connection_string(port: int) -> str:
    """Return the connection string of a broker on this machine."""
    return (
        f"Endpoint=sb://{HOST}:{port};SharedAccessKeyName=local;SharedAccessKey=local;"
        "UseDevelopmentEmulator=true"
    )


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """The addresses of a broker, and calls of its admin endpoint."""

    endpoints: Endpoints

    @property
    def connection_string(self) -> str:
        """The connection string for its clients."""
        return connection_string(self.endpoints.port)

    def admin(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Call the admin endpoint, and return the status and the JSON."""
        data = None if body is None else json.dumps(body).encode()
        url = f"http://{HOST}:{self.endpoints.admin_port}{path}"
        request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=_HTTP_SECONDS) as response:  # noqa: S310 - http only
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def inject(self, **fault: object) -> int:
        """Inject a fault, and return how often it fired at once. Raises ValueError for a wrong fault."""
        status, answer = self.admin("POST", "/faults", fault)
        if "fired" not in answer:
            raise ValueError(f"{status}: {answer}")
        fired: int = answer["fired"]
        return fired

    def figures(self, queue: str) -> dict[str, Any]:
        """Return the admin endpoint's figures of a queue. Raises KeyError if there is no such queue."""
        _, queues = self.admin("GET", "/queues")
        by_name: dict[str, dict[str, Any]] = {figures["name"]: figures for figures in queues}
        return by_name[queue]


@contextmanager
def running_broker(config: BrokerConfig, data: Path | None = None) -> Iterator[RunningBroker]:
    """Run a broker in a thread until the end of the block; without a data folder, in a temporary one.

    Raises the errors of `Broker.start`.
    """
    with ExitStack() as resources:
        folder = data or Path(resources.enter_context(TemporaryDirectory(prefix="servicebus-local-")))
        started: Future[Endpoints] = Future()
        stopping = Event()
        thread = Thread(target=asyncio.run, args=(_serve(config, folder, started, stopping),))
        thread.start()
        resources.callback(thread.join)
        resources.callback(stopping.set)
        yield RunningBroker(started.result())


async def _serve(config: BrokerConfig, data: Path, started: Future[Endpoints], stopping: Event) -> None:
    try:
        broker = await Broker.start(config, data)
    except Exception as error:  # noqa: BLE001 - the caller's thread raises it
        started.set_exception(error)
        return
    try:
        started.set_result(broker.endpoints)
        await asyncio.to_thread(stopping.wait)
    finally:
        await broker.stop()
