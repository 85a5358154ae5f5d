"""A connection that swallows all without a word, as after a failover: the next message takes another one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from functions.connections import Connection, connect_bus
from functions.host_functions import utc_now
from functions.messaging.message_format import QueueMessage
from functions.messaging.senders import MessageSender, SendError
from servicebus_local.broker.settings import QueueSettings
from servicebus_local.config import BrokerConfig
from servicebus_local.hubs.settings import HubSettings
from servicebus_local.testing import connection_string, running_broker

pytestmark = [
    pytest.mark.process,
    # The clients do not close sockets whose connection was cut.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

_TRIES = 8


class Wires:
    """Passes on what comes over connections, until they swallow it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._swallowing = set[int]()
        self._count = 0

    def swallow(self) -> None:
        """Have all connections there are swallow what comes; new ones do not."""
        self._swallowing = set(range(self._count))

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one connection."""
        number, self._count = self._count, self._count + 1
        to_broker, from_client = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._pass(number, reader, from_client), self._pass(number, to_broker, writer))

    async def _pass(self, number: int, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if number not in self._swallowing:
                    target.write(data)
                    await target.drain()
        except OSError:
            return
        finally:
            target.close()


@asynccontextmanager
async def _wires() -> AsyncIterator[tuple[Wires, Connection]]:
    config = BrokerConfig(queues={"submissions": QueueSettings()}, hubs={"orders": HubSettings()})
    with running_broker(config) as broker:
        wires = Wires(broker.endpoints.port)
        async with await asyncio.start_server(wires.take, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            yield wires, Connection(connection_string(port), None, None)


async def _until_sent(send: Callable[[], Awaitable[None]]) -> int:
    """Send until it is taken; give how often that failed."""
    for failures in range(_TRIES):
        try:
            await send()
        except SendError:
            continue
        return failures
    raise AssertionError("nothing is sent any more")


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.messaging.senders._SEND_SECONDS", 2)


async def test_message_for_a_queue_goes_over_another_connection() -> None:
    """Otherwise the API answers 503 until the system gives the connection up, a quarter of an hour later."""
    async with _wires() as (wires, connection):
        client = connect_bus(connection)
        sender = MessageSender(client, may_send=lambda _: True, now=utc_now, figures=Counter[str]())

        async def send() -> None:
            await sender.put("submissions", QueueMessage(message_id="m-1", body=b"{}"))

        async with client():
            await _until_sent(send)
            wires.swallow()
            assert await _until_sent(send) > 0
