"""A connection that swallows all without a word, as after a failover: the next message takes another one."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from functions.connections import Connection, connect_bus
from functions.host_functions import utc_now
from functions.messaging.message_format import QueueMessage
from functions.messaging.senders import MessageSender, SendError
from servicebus_local.broker.settings import QueueSettings
from servicebus_local.config import BrokerConfig
from servicebus_local.testing import connection_string, running_broker

pytestmark = [
    pytest.mark.process,
    # The clients do not close sockets whose connection was cut.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


class Wires:
    """Passes on what comes over connections, until `swallow` makes the open ones pass on nothing more."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._count = self._swallowing = 0

    def swallow(self) -> None:
        """Let all connections there are swallow what comes; new ones do not."""
        self._swallowing = self._count

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one connection."""
        number, self._count = self._count, self._count + 1
        to_broker, from_client = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._pass(number, reader, from_client), self._pass(number, to_broker, writer))

    async def _pass(self, number: int, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if number >= self._swallowing:
                    target.write(data)
                    await target.drain()
        except OSError:
            return
        finally:
            target.close()


async def test_message_for_a_queue_goes_over_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the API answers 503 until the system gives the connection up, a quarter of an hour later."""
    monkeypatch.setattr("functions.messaging.senders._SEND_SECONDS", 2)
    with running_broker(BrokerConfig(queues={"submissions": QueueSettings()})) as broker:
        wires = Wires(broker.endpoints.port)
        async with await asyncio.start_server(wires.take, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = connect_bus(Connection(connection_string(port), None, None))
            sender = MessageSender(client, may_send=lambda _: True, now=utc_now, figures=Counter[str]())

            async def failures_until_sent() -> int:
                for failures in range(8):
                    try:
                        await sender.put("submissions", QueueMessage(message_id="m-1", body=b"{}"))
                    except SendError:
                        continue
                    return failures
                raise AssertionError("nothing is sent any more")

            async with client():
                await failures_until_sent()
                wires.swallow()
                assert await failures_until_sent() > 0
