"""A broker in a thread of the test process, so that the blocking client can talk to it."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusClient

from servicebus_local.broker.settings import AutoCreateRule, QueueSettings
from servicebus_local.config import BrokerConfig
from servicebus_local.server import Broker, Endpoints

SECOND = 1000
#: Short times, which a configuration file may not have, so that tests need not wait for long ones.
QUEUES = {
    "orders": QueueSettings(lock_ms=30 * SECOND, max_delivery_count=3),
    # For tests with receivers of their own: an idle receiver of another test would take messages.
    "solo": QueueSettings(lock_ms=30 * SECOND),
    "handover": QueueSettings(lock_ms=30 * SECOND),
    "short-lock": QueueSettings(lock_ms=SECOND, max_delivery_count=3),
    # The client's renewers do not cope with less when the machine is busy.
    "five-seconds": QueueSettings(lock_ms=5 * SECOND),
    "expiring": QueueSettings(dead_letters_expired=True),
    "dropping": QueueSettings(time_to_live_ms=400),
    "unique": QueueSettings(duplicate_window_ms=1500),
    "remembering": QueueSettings(duplicate_window_ms=60 * SECOND),
    "small": QueueSettings(max_bytes=1000),
    "Faulty": QueueSettings(lock_ms=30 * SECOND),
}
AUTO_CREATE = (AutoCreateRule("private-*", QueueSettings(auto_delete_idle_ms=300)),)


def connection_string(port: int) -> str:
    """Return what the client needs to find a broker."""
    return (
        f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=local;SharedAccessKey=local;"
        "UseDevelopmentEmulator=true"
    )


@dataclass(frozen=True)
class RunningBroker:
    """Where a broker answers, and calls of its admin endpoint."""

    endpoints: Endpoints

    @property
    def connection_string(self) -> str:
        """What the client needs to find it."""
        return connection_string(self.endpoints.port)

    def client(self) -> ServiceBusClient:
        """Return a client that does not try again: a test wants to see the first answer."""
        return ServiceBusClient.from_connection_string(self.connection_string, retry_total=0)

    def admin(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Call the admin endpoint, and return status and JSON."""
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.endpoints.admin_port}{path}"
        request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310 - the same
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def inject(self, **fault: object) -> int:
        """Ask for a fault, and return how often it fired at once."""
        status, answer = self.admin("POST", "/faults", fault)
        assert status == 201, answer
        fired: int = answer["fired"]
        return fired

    def figures(self, queue: str) -> dict[str, Any]:
        """Return what the admin endpoint says about a queue."""
        _, queues = self.admin("GET", "/queues")
        return next(figures for figures in queues if figures["name"] == queue)


@contextmanager
def running_broker(data: Path) -> Iterator[RunningBroker]:
    """Run a broker until the end of the block."""
    started: list[Endpoints] = []
    ready, stopping = threading.Event(), threading.Event()

    async def serve() -> None:
        broker = await Broker.start(BrokerConfig(QUEUES, AUTO_CREATE), data)
        started.append(broker.endpoints)
        ready.set()
        await asyncio.to_thread(stopping.wait)
        await broker.stop()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10), "the broker did not start"
        yield RunningBroker(started[0])
    finally:
        stopping.set()
        thread.join()
