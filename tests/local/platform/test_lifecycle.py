"""Parts start at once, are watched, and can be killed, paused and started again on the same ports."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import aiohttp
import psutil
import pytest

from local.platform import (
    ANY_PORTS,
    Addresses,
    FolderInUseError,
    PartFailedError,
    PartName,
    Platform,
    PlatformOptions,
    PortTakenError,
    StartRefusedError,
)
from local.platform.blueprint import Blueprint
from local.platform.parts import Part, Readiness
from tests.local.platform.fake_platform import fake, fakes, options
from tests.local.platform.processes import PATIENCE, descendants, left_running

pytestmark = pytest.mark.process

#: Finds the processes that a test has started and that still run.
type Started = Callable[[], list[psutil.Process]]


async def _process_id(url: str) -> int:
    """Return the process id of a fake part."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return int(await response.text())


@pytest.fixture
def started() -> Started:
    """Return a function that finds the processes of this test; other tests' Azurite may run beside it."""
    before = set(psutil.Process().children(recursive=True))
    return lambda: [child for child in psutil.Process().children(recursive=True) if child not in before]


async def test_parts_answer_inside_the_block_and_are_gone_after_it(tmp_path: Path, started: Started) -> None:
    """The promise of `async with Platform(…)`."""
    async with Platform(options(tmp_path), fakes("with-child")) as platform:
        assert await _process_id(platform.addresses.host) == platform.pid(PartName.HOST)
        assert await _process_id(platform.addresses.admin) == platform.pid(PartName.BROKER)
        processes = started()
    assert len(processes) >= 4, "two parts, a child of one, and the watchdog"
    assert left_running(processes) == []


def _broker_and_host(
    broker: Callable[[Addresses], Sequence[str]], host: Callable[[Addresses], Sequence[str]]
) -> Blueprint:
    """Return a blueprint of a fake broker and a fake host whose behaviours depend on the ports."""

    def blueprint(_: PlatformOptions, addresses: Addresses) -> list[list[Part]]:
        return [
            [fake(PartName.BROKER, addresses.ports.admin, *broker(addresses), stop_within=PATIENCE)],
            [fake(PartName.HOST, addresses.ports.host, *host(addresses), stop_within=PATIENCE)],
        ]

    return blueprint


async def test_all_parts_start_at_once(tmp_path: Path) -> None:
    """Even the first listed may wait for the last."""
    waiting = _broker_and_host(lambda addresses: [f"after={addresses.ports.host}"], lambda _: [])
    async with Platform(options(tmp_path), waiting) as platform:
        assert await _process_id(platform.addresses.admin) == platform.pid(PartName.BROKER)


async def test_a_part_waits_only_for_parts_that_its_platform_has(tmp_path: Path) -> None:
    """A second host uses the broker of another platform, which runs already."""

    def blueprint(_: PlatformOptions, addresses: Addresses) -> list[list[Part]]:
        host = fake(PartName.HOST, addresses.ports.host, stop_within=PATIENCE)
        waits = {PartName.BROKER: (f"after={addresses.ports.admin}",), PartName.HOST: ("with-child",)}
        return [[replace(host, after=waits)]]

    async with Platform(options(tmp_path), blueprint) as platform:
        assert len(descendants(platform.pid(PartName.HOST))) == 2, (
            "it has the option for a part that is there"
        )


async def test_a_part_that_dies_while_another_still_starts_is_named(tmp_path: Path) -> None:
    """Nobody waits for a part that waits for one that is gone."""
    dying = _broker_and_host(
        lambda _: ["die-after-answer"], lambda addresses: [f"after={addresses.ports.blob}"]
    )
    with pytest.raises(PartFailedError, match="broker ended with exit code 3"):
        async with asyncio.timeout(PATIENCE / 2), Platform(options(tmp_path), dying):
            pass


async def test_parts_stop_in_the_opposite_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The host stops while the broker still listens."""
    async with Platform(options(tmp_path), fakes()):
        pass
    stops = [line for line in capsys.readouterr().err.splitlines() if line.endswith("stops")]
    assert stops == ["host       | fake part stops", "broker     | fake part stops"]


async def test_a_killed_part_starts_again_on_its_port(tmp_path: Path) -> None:
    """Clients find it at its address, and the platform does not treat the kill as a failure."""
    async with Platform(options(tmp_path), fakes()) as platform:
        before = await _process_id(platform.addresses.host)
        await platform.kill(PartName.HOST)
        with pytest.raises(aiohttp.ClientConnectionError):
            await _process_id(platform.addresses.host)
        await platform.start(PartName.HOST)
        after = await _process_id(platform.addresses.host)
        assert before != after
        assert await platform.unless_a_part_fails(asyncio.sleep(0, "fine")) == "fine"


async def test_a_restarted_part_is_a_new_process(tmp_path: Path) -> None:
    """`restart` stops gently and starts again."""
    async with Platform(options(tmp_path), fakes()) as platform:
        before = platform.pid(PartName.BROKER)
        await platform.restart(PartName.BROKER)
        assert await _process_id(platform.addresses.admin) == platform.pid(PartName.BROKER) != before


async def test_a_paused_part_does_not_answer_until_it_is_resumed(tmp_path: Path) -> None:
    """Like a machine that hangs: connections are accepted, and nothing is answered."""
    async with Platform(options(tmp_path), fakes()) as platform:
        platform.pause(PartName.HOST)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_process_id(platform.addresses.host), 0.3)
        platform.resume(PartName.HOST)
        assert await _process_id(platform.addresses.host) == platform.pid(PartName.HOST)


async def test_a_paused_part_is_stopped_gently(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is resumed first: a frozen process would not receive the signal."""
    async with Platform(options(tmp_path), fakes()) as platform:
        platform.pause(PartName.HOST)
    assert "host       | fake part stops" in capsys.readouterr().err


async def test_a_running_part_is_not_started_twice(tmp_path: Path) -> None:
    """Two hosts must not share a database."""
    async with Platform(options(tmp_path), fakes()) as platform:
        with pytest.raises(ValueError, match="host is running already"):
            await platform.start(PartName.HOST)


async def test_a_part_that_dies_is_named_with_its_last_lines(tmp_path: Path, started: Started) -> None:
    """The developer sees its last output, even if it leaves a child behind."""
    async with Platform(options(tmp_path), fakes("with-child")) as platform:
        with pytest.raises(aiohttp.ClientError):
            await _process_id(f"{platform.addresses.host}/die")
        with pytest.raises(PartFailedError, match="host ended with exit code 3") as failure:
            await asyncio.wait_for(platform.run_until_failure(), PATIENCE)
    assert failure.value.part is PartName.HOST
    assert failure.value.last_lines[-1] == "fatal: the fake dies on request"
    assert left_running(started()) == []


async def test_a_part_that_dies_ends_the_work_that_needs_it(tmp_path: Path) -> None:
    """A demo does not wait for its orders when the host is gone."""
    async with Platform(options(tmp_path), fakes()) as platform:
        with pytest.raises(aiohttp.ClientError):
            await _process_id(f"{platform.addresses.host}/die")
        with pytest.raises(PartFailedError):
            await platform.unless_a_part_fails(asyncio.Event().wait())


async def test_a_part_that_does_not_start_stops_the_rest(tmp_path: Path, started: Started) -> None:
    """The error carries the reason that the part itself gave."""
    with pytest.raises(PartFailedError, match="host ended with exit code 1 before it was ready") as failure:
        async with Platform(options(tmp_path), fakes("die-at-start")):
            pass
    assert "fatal: a setting is missing" in failure.value.last_lines
    assert left_running(started()) == []


async def test_a_part_that_does_not_stop_is_killed_when_its_time_is_up(
    tmp_path: Path, started: Started
) -> None:
    """Nothing delays the end for longer than a part's `stop_within`."""
    async with asyncio.timeout(PATIENCE):
        async with Platform(options(tmp_path), fakes("ignore-sigterm", stop_within=0.2)):
            processes = started()
    assert left_running(processes) == []


async def test_a_part_that_is_not_crash_safe_is_not_killed(tmp_path: Path) -> None:
    """Azurite loses what it has not saved, so only a gentle stop is offered."""

    def blueprint(_: PlatformOptions, addresses: Addresses) -> list[list[Part]]:
        command = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(addresses.ports.table))
        return [[Part(PartName.AZURITE, command, Readiness(addresses.table), crash_safe=False)]]

    async with Platform(options(tmp_path), blueprint) as platform:
        with pytest.raises(ValueError, match="use stop"):
            await platform.kill(PartName.AZURITE)
        await platform.stop(PartName.AZURITE)


async def test_a_second_platform_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    """Two Azurites on one folder would overwrite each other's files."""
    async with Platform(options(tmp_path), fakes()):
        with pytest.raises(FolderInUseError):
            async with Platform(options(tmp_path), fakes()):
                pass


async def test_a_taken_port_is_found_before_anything_starts(tmp_path: Path, started: Started) -> None:
    """No part is started and stopped again because another cannot start."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        wanted = replace(ANY_PORTS, host=other.getsockname()[1])
        with pytest.raises(PortTakenError):
            async with Platform(PlatformOptions(ports=wanted, data=tmp_path), fakes()):
                pass
    assert started() == []


async def test_the_platform_refuses_to_run_inside_azure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a developer's tool, and must never replace the real services."""
    monkeypatch.setenv("WEBSITE_INSTANCE_ID", "0123")
    with pytest.raises(StartRefusedError, match="WEBSITE_INSTANCE_ID"):
        async with Platform(options(tmp_path), fakes()):
            pass
