"""Durable Functions through the whole host: real SDK, real worker library, our engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.host.processes import PATIENCE, Part, start_host

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

APP = Path(__file__).parent / "durable_app"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(folder: Path) -> AsyncIterator[Part]:
    """Run the Durable app."""
    part = await start_host(folder, app=APP)
    yield part
    await part.stop()


async def outcome(host: Part, orchestrator: str, given: object, **query: str) -> dict[str, Any]:
    """Start an orchestration as a user does, and poll its status URL until it has ended."""
    async with aiohttp.ClientSession(host.ready) as http:
        async with http.post(f"/api/start/{orchestrator}", json=given, params=query) as started:
            assert started.status == 202
            status_url = (await started.json())["statusQueryGetUri"]
        async with asyncio.timeout(PATIENCE):
            while True:
                async with http.get(status_url) as answer:
                    if answer.status == 200:
                        status: dict[str, Any] = await answer.json()
                        return status
                await asyncio.sleep(0.02)


async def test_orchestration_runs_to_its_end(host: Part) -> None:
    """Start over HTTP, sync and async activities, result in the status."""
    status = await outcome(host, "chain", 1)
    assert (status["runtimeStatus"], status["output"]) == ("Completed", 3)


async def test_failing_activity_fails_the_orchestration_with_its_message(host: Part) -> None:
    """The host's log has the stack."""
    status = await outcome(host, "failing", 1)
    assert status["runtimeStatus"] == "Failed"
    assert "ValueError: broken None" in status["output"]
    assert "raise ValueError" in host.log


@pytest.mark.parametrize("where", ["orchestrator", "activity"])
async def test_exit_fails_the_orchestration(host: Part, where: str) -> None:
    """Not the host, which runs the next one."""
    status = await outcome(host, "exiting", where)
    assert status["runtimeStatus"] == "Failed"
    assert "SystemExit: on purpose" in status["output"]
    assert (await outcome(host, "chain", 1))["output"] == 3


async def test_status_has_the_engines_figures(host: Part) -> None:
    """Next to the counters of the functions."""
    await outcome(host, "chain", 1)
    async with aiohttp.ClientSession(host.ready) as http, http.get("/admin/host/status") as response:
        status = await response.json()
    assert status["durable"]
    assert status["functions"]["add_one"]["succeeded"] >= 1


async def test_dates_of_the_history_are_parsed_by_the_standard_library(host: Part) -> None:
    """The patch of the SDK's date parser is in place: an orchestrator sees an aware UTC time."""
    status = await outcome(host, "clock", 1)
    assert status["output"]["parser"] == "fromisoformat"
    assert status["output"]["zone"] == "UTC"


async def test_orchestrators_are_replayed_on_the_event_loop(host: Part) -> None:
    """A thread would cost more than the replay itself."""
    status = await outcome(host, "clock", 1)
    assert status["output"]["thread"] == "MainThread"


async def test_default_version_is_read_from_host_json(host: Part) -> None:
    """An orchestrator sees it."""
    assert (await outcome(host, "clock", 1))["output"]["version"] == "1.0"


async def test_finished_orchestration_is_kept_after_a_kill(tmp_path: Path) -> None:
    """After kill -9, a new host on the same folder returns it."""
    first = await start_host(tmp_path, app=APP)
    await outcome(first, "chain", 5, id="kept")
    first.process.kill()
    await first.process.wait()
    again = await start_host(tmp_path, app=APP)
    try:
        kept = "/runtime/webhooks/durabletask/instances/kept"
        async with aiohttp.ClientSession(again.ready) as http, http.get(kept) as response:
            assert (await response.json())["output"] == 7
    finally:
        await again.stop()


async def test_damaged_database_is_named(tmp_path: Path) -> None:
    """One line with the file and the fix."""
    first = await start_host(tmp_path, app=APP)
    await first.stop()
    [database] = (tmp_path / "data" / "durable").glob("*.db")
    database.write_bytes(b"not a database" * 100)
    with pytest.raises(AssertionError, match=rf"{database.name} is damaged \(.*\): delete it"):
        await start_host(tmp_path, app=APP)


async def test_second_host_on_the_same_data_is_refused(tmp_path: Path) -> None:
    """One line, before any function runs."""
    first = await start_host(tmp_path, app=APP)
    with pytest.raises(AssertionError, match="in use by another process"):
        await start_host(tmp_path, app=APP)
    await first.stop()
