"""kill -9 at any moment: everything that was accepted completes correctly."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

_ROOT = Path(__file__).parents[2]
_INSTANCES = [f"k{number}" for number in range(12)]
_KILLS = 5


class KilledHost:
    """A host process with one database; it can be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._arguments = (str(folder / "durable.sqlite"), str(folder / "log"), *options)
        self._base = ""

    async def start(self) -> Self:
        """Start the process and wait until it serves."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.durable.killed_host",
            *self._arguments,
            cwd=_ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        port = (await self._process.stdout.readline()).decode().strip()
        self._base = f"http://127.0.0.1:{port}/durabletask"
        return self

    async def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        await self._process.communicate()

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request."""
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self._base}/{path}", json=body) as answer,
        ):
            return answer.status, await answer.json(content_type=None)

    async def output(self, instance: str) -> Any:
        """Return the output of an instance when it has completed."""
        async with asyncio.timeout(60):
            while True:
                status, payload = await self.ask("GET", f"instances/{instance}")
                if status == 200:
                    return payload["output"]
                await asyncio.sleep(0.02)


@pytest.mark.process
@pytest.mark.timeout(300)
async def test_nothing_accepted_is_lost(tmp_path: Path) -> None:
    """Instances, timers and events survive five kills; activities run at least once, results are right."""
    draw = random.Random(7)  # noqa: S311 - a test that can be repeated
    host = await KilledHost(tmp_path).start()
    try:
        for instance in _INSTANCES:
            assert (await host.ask("POST", f"orchestrators/everything/{instance}"))[0] == 202
        unsent = set(_INSTANCES)
        for _ in range(_KILLS):
            await asyncio.sleep(draw.uniform(0.02, 0.35))  # the moment of the kill is what is varied here
            await _raise_some(host, unsent, draw)
            await host.kill()
            await host.start()
        await _raise_some(host, unsent, None)
        outputs = [await host.output(instance) for instance in _INSTANCES]
    finally:
        await host.kill()
    assert outputs == [[2, "slept 0.15", {"for": instance}, [11, 21]] for instance in _INSTANCES]
    log = (tmp_path / "log").read_text().split()
    assert log.count("begin") >= log.count("end") >= len(_INSTANCES)
    with contextlib.closing(sqlite3.connect(tmp_path / "durable.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("SELECT count(*) FROM activities").fetchall() == [(0,)]
        assert database.execute("SELECT count(*) FROM inbox").fetchall() == [(0,)]


async def _raise_some(host: KilledHost, unsent: set[str], draw: random.Random | None) -> None:
    """Send the event to about a third of those without it, or to all of them."""
    for instance in sorted(unsent):
        if draw is None or draw.random() < 0.3:
            status, _ = await host.ask("POST", f"instances/{instance}/raiseEvent/approve", {"for": instance})
            assert status == 202
            unsent.remove(instance)
