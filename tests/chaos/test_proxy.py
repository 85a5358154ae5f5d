"""The proxy forwards, and cuts, holds, slows and swallows as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.proxy import Proxy, Weather

_SLOWNESS = 0.1


async def test_fair_weather_passes_everything() -> None:
    """Both ways, whatever the size."""
    async with _echo_behind_proxy() as proxy, _connected(proxy) as (reader, writer):
        for size in (1, 300_000):
            writer.write(b"x" * size)
            assert await reader.readexactly(size) == b"x" * size


async def test_cut_ends_what_is_connected_and_refuses_more() -> None:
    """Old connections and new ones end; after that, new ones pass."""
    async with _echo_behind_proxy() as proxy:
        async with _connected(proxy) as (reader, writer):
            writer.write(b"hello")
            await reader.readexactly(5)
            async with proxy.weather(Weather.CUTTING):
                assert await _ended(reader)
                async with _connected(proxy) as (refused, _):
                    assert await _ended(refused)
        assert proxy.met >= 2
        async with _connected(proxy) as (reader, writer):
            writer.write(b"again")
            assert await reader.readexactly(5) == b"again"


async def test_held_data_passes_when_the_weather_changes() -> None:
    """Nothing is lost, nothing comes before its time."""
    async with _echo_behind_proxy() as proxy, _connected(proxy) as (reader, writer):
        async with proxy.weather(Weather.HOLDING):
            writer.write(b"hello")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.2)
        assert await reader.readexactly(5) == b"hello"
        assert proxy.met >= 1


async def test_slow_weather_delays_both_ways() -> None:
    """There and back takes twice the slowness."""
    async with (
        _echo_behind_proxy() as proxy,
        _connected(proxy) as (reader, writer),
        proxy.weather(Weather.SLOW),
    ):
        start = asyncio.get_running_loop().time()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert asyncio.get_running_loop().time() - start >= 2 * _SLOWNESS


async def test_swallowed_answer_was_asked_for() -> None:
    """The request arrives; instead of its answer, the connection ends."""
    heard: list[bytes] = []
    async with (
        _echo_behind_proxy(heard) as proxy,
        _connected(proxy) as (reader, writer),
        proxy.weather(Weather.SWALLOWING),
    ):
        writer.write(b"hello")
        assert await _ended(reader)
    assert heard == [b"hello"]
    assert proxy.met == 1


@asynccontextmanager
async def _echo_behind_proxy(heard: list[bytes] | None = None) -> AsyncIterator[Proxy]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if heard is not None:
                heard.append(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, Proxy(slowness=_SLOWNESS).serving() as proxy:
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


async def _ended(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(5):
        try:
            return await reader.read(1) == b""
        except ConnectionError:
            return True
