"""However the platform's own process ends, no process is left."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from local.platform import until_stop_signal
from local.platform.process import ROOT
from tests.local.platform.processes import PATIENCE, descendants, left_running

pytestmark = pytest.mark.process

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

    assert await until_stop_signal(demo(), lambda: None, stopped=130) == 130


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
    """After a second Ctrl-C nobody waits for a part that does not stop, whose time is not over yet."""
    platform = start("ignore-sigterm")
    processes = descendants(platform.pid)
    platform.send_signal(signal.SIGINT)
    assert platform.stderr
    assert any("ignores SIGTERM" in line for line in platform.stderr)
    assert platform.poll() is None
    platform.send_signal(signal.SIGINT)
    assert platform.wait(PATIENCE / 2) == 0
    assert left_running(processes) == []


def test_a_killed_platform_leaves_no_process(start: Start) -> None:
    """After kill -9 the watchdog stops the parts."""
    platform = start("with-child")
    processes = descendants(platform.pid)
    assert len(processes) >= 5, "the platform, two parts, a child of one, and the watchdog"
    platform.kill()
    assert left_running(processes) == []


def test_a_killed_platform_leaves_no_part_that_does_not_stop(start: Start) -> None:
    """The watchdog stops it gently first, then with SIGKILL."""
    platform = start("ignore-sigterm")
    processes = descendants(platform.pid)
    platform.kill()
    assert left_running(processes) == []


def test_a_killed_platform_can_be_started_again_at_once(start: Start) -> None:
    """The new one waits until the old one's parts have released the data folder."""
    first = start()
    first.kill()
    first.wait()  # until then its number is taken, as if it ran
    second = start()
    second.terminate()
    assert second.wait(PATIENCE) == 0


def test_a_part_that_dies_ends_the_program(start: Start) -> None:
    """The platform does not continue without one of its parts."""
    platform = start()
    part = next(
        child
        for child in psutil.Process(platform.pid).children()
        if "fake_part.py" in "".join(child.cmdline())
    )
    part.kill()
    assert platform.wait(PATIENCE) == 1
