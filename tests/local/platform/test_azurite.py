"""The real Azurite: rows that were written just before its stop are there when it starts again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from azure.data.tables import TableClient

from local.platform import ANY_PORTS, ROOT, Addresses, Platform, PlatformOptions, folder
from local.platform.blueprint import Stages, azurite_alone
from tests.local.platform.processes import PATIENCE, descendants, left_running

pytestmark = pytest.mark.process


def azurite_only(options: PlatformOptions, addresses: Addresses) -> Stages:
    """Return Azurite; it may take its time to save."""
    [[azurite]] = azurite_alone(options, addresses)
    return [[replace(azurite, stop_within=PATIENCE)]]


async def _run_azurite(data: Path) -> None:
    """Run Azurite until this process is killed, after printing the connection string."""
    async with Platform(PlatformOptions(ports=ANY_PORTS, data=data), azurite_only) as platform:
        sys.stdout.write(f"{platform.addresses.storage_connection}\n")
        sys.stdout.flush()
        await platform.run_until_failure()


def _write_and_kill(data: Path) -> list[psutil.Process]:
    """Write to the Azurite of a platform in another process, kill that platform, and return its processes."""
    command = [sys.executable, "-m", __name__, str(data)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as other:
        assert other.stdout
        connection = other.stdout.readline().strip()
        processes = descendants(other.pid)
        _write(connection)
        other.kill()
    return processes


def _write(connection: str) -> None:
    with TableClient.from_connection_string(connection, "Tasks") as table:
        table.create_table()
        table.create_entity({"PartitionKey": "7", "RowKey": "last-moment"})


def _read(connection: str) -> str:
    with TableClient.from_connection_string(connection, "Tasks") as table:
        return str(table.get_entity("7", "last-moment")["RowKey"])


async def test_last_write_before_a_kill_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog then stops Azurite gently, and the next platform waits for that."""
    monkeypatch.setattr(folder, "_LEAVING_WITHIN", PATIENCE)
    killed = await asyncio.to_thread(_write_and_kill, tmp_path)
    async with Platform(PlatformOptions(ports=ANY_PORTS, data=tmp_path), azurite_only) as platform:
        assert await asyncio.to_thread(_read, platform.addresses.storage_connection) == "last-moment"
    assert left_running(killed) == []


if __name__ == "__main__":
    asyncio.run(_run_azurite(Path(sys.argv[1])))
