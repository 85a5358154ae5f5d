"""One host is cut off from one thing that it needs, and the other host is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chaos.hosts.host import ChaosHost
from tests.chaos.hosts.links import HostLinks, LinkTarget
from tests.chaos.injection.partitions import Partitions
from tests.chaos.injection.proxy import Proxy
from tests.chaos.plan.faults import InjectedFault, Injection
from tests.local.platform.processes import PATIENCE

#: Seconds that a partition lasts.
_LASTS = 1.0
_FAULTS = {
    InjectedFault.CUT_FROM_TABLES: LinkTarget.TABLES,
    InjectedFault.CUT_FROM_BUS: LinkTarget.BUS,
    InjectedFault.CUT_FROM_SERVICES: LinkTarget.SERVICES,
}


@pytest.mark.parametrize("fault", _FAULTS)
async def test_partition_affects_one_host_and_one_thing(fault: InjectedFault, tmp_path: Path) -> None:
    """Both ways first; the next host has its turn then."""
    async with _hosts(tmp_path) as (first, second):
        partitions = Partitions([first, second])
        for cut, free in ((first, second), (second, first)):
            injected = asyncio.create_task(partitions.inject(Injection(fault, 0, _LASTS)))
            async with asyncio.timeout(PATIENCE):
                while not cut.free.locked():
                    await asyncio.sleep(0)
                held = asyncio.create_task(_echo(cut.links.to(_FAULTS[fault])))
                others = [cut.links.to(each) for each in LinkTarget if each is not _FAULTS[fault]]
                others += [free.links.to(each) for each in LinkTarget]
                await asyncio.gather(*map(_echo, others))
                assert not held.done() or injected.done()
                assert await injected > 0
                await held


@asynccontextmanager
async def _hosts(folder: Path) -> AsyncIterator[list[ChaosHost]]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1))
        await writer.drain()
        writer.close()

    hosts = [ChaosHost(HostLinks(), folder / name) for name in ("first", "second")]
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, hosts[0].links.serving(), hosts[1].links.serving():
        for host in hosts:
            for target in LinkTarget:
                host.links.to(target).forward_to(server.sockets[0].getsockname()[1])
        yield hosts


async def _echo(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"x")
    assert await reader.read(1) == b"x"
    writer.close()
