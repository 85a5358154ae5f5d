"""The proxy forwards, and closes, holds, delays and drops in its modes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from tests.chaos.injection.proxy import Proxy, ProxyMode
from tests.local.platform.processes import PATIENCE

_DELAY = 0.1


async def test_passing_mode_forwards_everything() -> None:
    """Both ways, whatever the size."""
    async with _echo_behind_proxy() as proxy, _connected(proxy) as (reader, writer):
        for size in (1, 300_000):
            writer.write(b"x" * size)
            assert await reader.readexactly(size) == b"x" * size


async def test_cutting_mode_closes_old_and_new_connections() -> None:
    """When the mode has ended, new connections are forwarded."""
    async with _echo_behind_proxy() as proxy:
        async with _connected(proxy) as (reader, writer):
            writer.write(b"hello")
            await reader.readexactly(5)
            async with proxy.mode(ProxyMode.CUTTING):
                assert await _ended(reader)
                async with _connected(proxy) as (refused, _):
                    assert await _ended(refused)
        assert proxy.affected >= 2
        async with _connected(proxy) as (reader, writer):
            writer.write(b"again")
            assert await reader.readexactly(5) == b"again"


async def test_held_data_is_forwarded_when_the_mode_changes() -> None:
    """Nothing is lost, and nothing arrives early."""
    async with _echo_behind_proxy() as proxy, _connected(proxy) as (reader, writer):
        async with proxy.mode(ProxyMode.HOLDING):
            writer.write(b"hello")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.2)
        assert await reader.readexactly(5) == b"hello"
        assert proxy.affected >= 1


async def test_held_answer_belongs_to_a_request_that_arrived() -> None:
    """It comes when the mode changes; a partition that is open one way looks like this."""
    received: list[bytes] = []
    async with _echo_behind_proxy(received) as proxy, _connected(proxy) as (reader, writer):
        async with proxy.mode(ProxyMode.HOLDING_ANSWERS):
            writer.write(b"hello")
            async with asyncio.timeout(PATIENCE):
                while received != [b"hello"]:
                    await asyncio.sleep(0.01)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.2)
        assert await reader.readexactly(5) == b"hello"
        assert proxy.affected >= 1


async def test_one_mode_waits_for_the_end_of_another() -> None:
    """Neither ends the other, nor takes its count."""
    proxy = Proxy(delay=_DELAY)
    order: list[str] = []

    async def hold(name: str) -> None:
        async with proxy.mode(ProxyMode.HOLDING):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(hold("one"), hold("two"))
    assert order == ["one begins", "one ends", "two begins", "two ends"]


async def test_slowing_mode_delays_both_ways() -> None:
    """There and back takes twice the delay."""
    async with (
        _echo_behind_proxy() as proxy,
        _connected(proxy) as (reader, writer),
        proxy.mode(ProxyMode.SLOWING),
    ):
        start = asyncio.get_running_loop().time()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert asyncio.get_running_loop().time() - start >= 2 * _DELAY


async def test_nothing_is_left_of_a_held_connection_when_the_proxy_ends() -> None:
    """Its ends are closed, and its tasks are over: what was left failed a later test."""
    async with AsyncExitStack() as stack:
        async with _echo_behind_proxy() as proxy:
            reader, writer = await stack.enter_async_context(_connected(proxy))
            await stack.enter_async_context(proxy.mode(ProxyMode.HOLDING))
            writer.write(b"hello")
            async with asyncio.timeout(PATIENCE):
                while proxy.affected == 0:
                    await asyncio.sleep(0)
        assert await _ended(reader)
        assert not [task for task in asyncio.all_tasks() if "Proxy." in repr(task)]


async def test_dropped_answer_belongs_to_a_request_that_arrived() -> None:
    """Instead of its answer, the connection is closed."""
    received: list[bytes] = []
    async with (
        _echo_behind_proxy(received) as proxy,
        _connected(proxy) as (reader, writer),
        proxy.mode(ProxyMode.DROPPING_ANSWERS),
    ):
        writer.write(b"hello")
        assert await _ended(reader)
    assert received == [b"hello"]
    assert proxy.affected == 1


@asynccontextmanager
async def _echo_behind_proxy(received: list[bytes] | None = None) -> AsyncIterator[Proxy]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if received is not None:
                received.append(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, Proxy(delay=_DELAY).serving() as proxy:
        proxy.forward_to(server.sockets[0].getsockname()[1])
        yield proxy
        server.close_clients()


@asynccontextmanager
async def _connected(proxy: Proxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _ended(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read(1) == b""
        except ConnectionError:
            return True
