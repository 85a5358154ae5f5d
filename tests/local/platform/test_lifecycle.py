"""The platform starts its parts, notices that one dies, and leaves no process behind."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

import aiohttp
import psutil
import pytest

from local.platform import (
    ANY_PORTS,
    ROOT,
    Addresses,
    PartFailedError,
    PartName,
    Platform,
    PlatformOptions,
    PortTakenError,
    until_stop_signal,
    watchdog,
)
from local.platform.app import write_bound_queues
from local.platform.blueprint import Blueprint
from local.platform.folder import held
from local.platform.parts import Part, PlatformError, Readiness
from local.platform.process import PartProcess
from local.platform.watchdog import Watchdog, watch
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


async def test_parts_answer_survive_a_kill_and_a_pause_and_end_with_the_block(
    tmp_path: Path, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed part starts again on its port; a paused one is resumed before it is stopped.

    The parts stop in the opposite order: the host stops while the broker still listens.
    """
    async with Platform(options(tmp_path), fakes("with-child")) as platform:
        host = platform.addresses.host
        assert await _process_id(platform.addresses.admin) == platform.pid(PartName.BROKER)
        before = await _process_id(host)
        assert before == platform.pid(PartName.HOST)
        processes = started()
        assert len(processes) >= 4, "two parts, a child of one, and the watchdog"

        await platform.kill(PartName.HOST)
        with pytest.raises(aiohttp.ClientConnectionError):
            await _process_id(host)
        await platform.start(PartName.HOST)
        assert before != await _process_id(host)
        assert await platform.unless_a_part_fails(asyncio.sleep(0, "fine")) == "fine"
        with pytest.raises(ValueError, match="host is running already"):
            await platform.start(PartName.HOST)

        platform.pause(PartName.HOST)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_process_id(host), 0.3)
        platform.resume(PartName.HOST)
        assert await _process_id(host) == platform.pid(PartName.HOST)
        platform.pause(PartName.HOST)
    assert left_running([*processes, *started()]) == []
    stops = [line for line in capsys.readouterr().err.splitlines() if line.endswith("stops")]
    assert stops == ["host       | fake part stops", "broker     | fake part stops"]


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


async def test_all_parts_start_at_once_and_wait_only_for_parts_of_their_platform(tmp_path: Path) -> None:
    """Even the first listed may wait for the last. A second host uses the broker of another platform."""
    waiting = _broker_and_host(lambda addresses: [f"after={addresses.ports.host}"], lambda _: [])
    async with Platform(options(tmp_path), waiting) as platform:
        assert await _process_id(platform.addresses.admin) == platform.pid(PartName.BROKER)

    def second_host(_: PlatformOptions, addresses: Addresses) -> list[list[Part]]:
        host = fake(PartName.HOST, addresses.ports.host, stop_within=PATIENCE)
        waits = {PartName.BROKER: (f"after={addresses.ports.admin}",), PartName.HOST: ("with-child",)}
        return [[replace(host, after=waits)]]

    async with Platform(options(tmp_path), second_host) as platform:
        children = descendants(platform.pid(PartName.HOST))
        assert len(children) == 2, "it has the option for a part that is there"


async def test_a_part_that_dies_while_another_still_starts_is_named(tmp_path: Path) -> None:
    """No part waits for a part that has ended."""
    dying = _broker_and_host(
        lambda _: ["die-after-answer"], lambda addresses: [f"after={addresses.ports.blob}"]
    )
    with pytest.raises(PartFailedError, match="broker ended with exit code 3"):
        async with asyncio.timeout(PATIENCE / 2), Platform(options(tmp_path), dying):
            pass


async def test_a_part_that_dies_is_named_with_its_last_lines(tmp_path: Path, started: Started) -> None:
    """The developer sees its last output, even if it leaves a child behind; work that needs it ends."""
    async with Platform(options(tmp_path), fakes("with-child")) as platform:
        with pytest.raises(aiohttp.ClientError):
            await _process_id(f"{platform.addresses.host}/die")
        with pytest.raises(PartFailedError, match="host ended with exit code 3") as failure:
            await asyncio.wait_for(platform.unless_a_part_fails(asyncio.Event().wait()), PATIENCE)
    assert failure.value.part is PartName.HOST
    assert failure.value.last_lines[-1] == "fatal: the fake dies on request"
    assert left_running(started()) == []


async def test_a_part_that_does_not_start_or_stop_leaves_nothing(tmp_path: Path, started: Started) -> None:
    """The error has the part's own reason. A part that does not stop is killed after its `stop_within`."""
    with pytest.raises(PartFailedError, match="host ended with exit code 1 before it was ready") as failure:
        async with Platform(options(tmp_path), fakes("die-at-start")):
            pass
    assert "fatal: a setting is missing" in failure.value.last_lines
    assert left_running(started()) == []
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


async def test_platform_in_memory_starts_empty(tmp_path: Path) -> None:
    """The data of another platform in the same folder is not deleted."""
    in_memory = replace(options(tmp_path), in_memory_storage=True)
    for folder in (in_memory.state / "host", tmp_path / "host"):
        folder.mkdir(parents=True)
    async with Platform(in_memory, fakes()):
        assert not in_memory.state.exists()
    assert (tmp_path / "host").exists()


async def test_a_taken_port_is_found_before_anything_starts(tmp_path: Path, started: Started) -> None:
    """No part is started and stopped again because another cannot start."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        wanted = replace(ANY_PORTS, host=other.getsockname()[1])
        with pytest.raises(PortTakenError):
            async with Platform(PlatformOptions(ports=wanted, data=tmp_path), fakes()):
                pass
    assert started() == []


type Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Yield a function that starts a platform of fake parts as a process, and waits until it is ready."""
    started: list[subprocess.Popen[str]] = []

    def start_platform(*behaviour: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.local.platform.fake_platform", str(tmp_path), *behaviour]
        platform = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        started.append(platform)
        assert platform.stdout
        assert platform.stdout.readline() == "ready\n"
        return platform

    yield start_platform
    for platform in started:
        platform.kill()
        platform.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_stops_everything(start: Start, number: signal.Signals) -> None:
    """Ctrl-C, `kill` and a closed terminal all mean stop, and the exit code is that of success."""
    platform = start("with-child")
    processes = descendants(platform.pid)
    platform.send_signal(number)
    assert platform.wait(PATIENCE) == 0
    assert left_running(processes) == []


async def test_work_that_was_stopped_before_its_end_is_no_success() -> None:
    """A demo that was stopped has shown nothing."""

    async def demo() -> int:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.Event().wait()
        return 0

    assert await until_stop_signal(demo(), stopped=130) == 130


def test_a_platform_under_nohup_outlives_its_terminal(start: Start) -> None:
    """A signal that the caller has set to be ignored stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        platform = start()
    finally:
        signal.signal(signal.SIGHUP, before)
    platform.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        platform.wait(0.3)


def test_a_second_signal_kills_at_once(start: Start) -> None:
    """After a second Ctrl-C a part that does not stop is killed before its timeout."""
    platform = start("ignore-sigterm")
    processes = descendants(platform.pid)
    platform.send_signal(signal.SIGINT)
    assert platform.stderr
    assert any("ignores SIGTERM" in line for line in platform.stderr)
    assert platform.poll() is None
    platform.send_signal(signal.SIGINT)
    assert platform.wait(PATIENCE / 2) == 0
    assert left_running(processes) == []


def test_a_killed_platform_leaves_no_process_and_can_be_started_again_at_once(start: Start) -> None:
    """After kill -9 the watchdog stops the parts; a new platform waits until the data folder is released."""
    first = start("with-child")
    processes = descendants(first.pid)
    assert len(processes) >= 5, "the platform, two parts, a child of one, and the watchdog"
    first.kill()
    first.wait()  # until then its number is taken, as if it ran
    second = start()
    assert left_running(processes) == []
    second.terminate()
    assert second.wait(PATIENCE) == 0


_OURS, _CALLERS = "AzureWebJobs.supervisor.Disabled", "AzureWebJobs.full-sweep.Disabled"


async def _output(folder: Path, *command: str, **environment: str) -> list[str]:
    part = Part(PartName.HOST, command, Readiness(""), environment)
    async with Watchdog.running() as watchdog, held(folder) as lock:
        process = await PartProcess.start(part, watchdog, lock)
        assert await process.wait() == 0
        return list(process.last_lines)


async def test_a_part_gets_each_setting_and_ends_at_a_broken_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell on the way would lose the switches of functions: their names have dots.

    The part ends quietly, as it would without Python before it, which has its children ignore that signal.
    """
    monkeypatch.setenv(_CALLERS, "the environment's")
    shown = f"import os; print(*map(os.environ.get, {(_OURS, _CALLERS)!r}), sep='; ')"
    lines = await _output(tmp_path, sys.executable, "-c", shown, **{_OURS: "true"})
    assert lines == ["true; the environment's"]
    assert await _output(tmp_path, "/bin/sh", "-c", "yes | head -1") == ["y"]


def test_nothing_starts_when_the_platform_has_ended(tmp_path: Path) -> None:
    """The watchdog may not know the process yet."""
    started = tmp_path / "started"
    command = [sys.executable, str(ROOT / "local" / "platform" / "gate.py"), "/usr/bin/touch", str(started)]
    for said, starts in (b"", False), (b"go\n", True):
        subprocess.run(command, input=said, check=True)
        assert started.exists() is starts


@pytest.fixture
def part() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in its own group; it is reaped when it ends, as the group counts as running before."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        reaper = Thread(target=process.wait)
        reaper.start()
        yield process
        process.kill()
        reaper.join()


@pytest.mark.parametrize(
    ("within", "last", "end"),
    [(PATIENCE, signal.SIGTERM, -signal.SIGTERM), (0.1, 0, -signal.SIGKILL), (0.1, -1, None)],
    ids=["resumed and asked to stop", "asked already", "released"],
)
def test_watchdog_stops_each_part_once(
    part: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, within: float, last: int, end: int | None
) -> None:
    """A frozen part is resumed; a second SIGTERM would end Azurite before it has saved.

    A released part gets no signal: its process id may belong to another program by now.
    """
    monkeypatch.setattr(watchdog, "_STOP_WITHIN", within)
    part.send_signal(signal.SIGSTOP)
    watch([f"{part.pid} {signal.SIGTERM:d}\n", f"{part.pid} {last:d}\n"])
    assert part.poll() is None if end is None else part.wait(PATIENCE) == end


_LEAVES_A_PROCESS_RUNNING = """
import pathlib, subprocess, sys
import azure.functions as func

app = func.FunctionApp()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(__file__).with_name("child").write_text(str(child.pid))

@app.route(route="hi")
def hi(req: func.HttpRequest) -> str:
    return "hi"
"""


def _app(folder: Path, code: str) -> Path:
    (folder / "host.json").write_text('{"version": "2.0"}')
    (folder / "function_app.py").write_text(code)
    return folder


async def test_app_is_loaded_in_bounded_time(tmp_path: Path) -> None:
    """The refusal names the limit, and the process that loads the app is ended.

    The queues are written as soon as the app's own process has ended, even if it leaves a process running.
    """
    queues = tmp_path / "queues.json"
    app = _app(tmp_path, "import threading\nthreading.Event().wait()")
    with pytest.raises(PlatformError, match=r"declare them in .*: loading the app took more than 0\.1 s$"):
        await write_bound_queues(app, {}, queues, within=0.1)
    assert not queues.exists()
    assert str(app) not in [word for child in psutil.Process().children() for word in child.cmdline()]

    _app(tmp_path, _LEAVES_A_PROCESS_RUNNING)
    await write_bound_queues(app, {}, queues)
    child = psutil.Process(int((tmp_path / "child").read_text()))
    assert child.is_running()
    child.kill()
    assert json.loads(queues.read_text()) == {"queues": []}
