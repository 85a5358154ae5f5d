"""However the platform's own process is ended, it leaves no process behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from local.platform import until_told_to_stop
from local.platform.process import ROOT
from tests.local.platform.processes import LEAVING_WITHIN, descendants, still_there

pytestmark = pytest.mark.process

type Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts a platform of fake parts as a process, and waits until it is ready."""
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
def test_a_stop_signal_stops_everything_within_five_seconds(start: Start, number: signal.Signals) -> None:
    """Ctrl-C, `kill` and a terminal that closes are all the same wish, and fulfilling it is a success."""
    platform = start("with-child")
    processes = descendants(platform.pid)
    platform.send_signal(number)
    assert platform.wait(5) == 0
    assert still_there(processes, within=0.5) == []


async def test_work_that_should_have_come_to_its_end_is_no_success() -> None:
    """A demo that was stopped half-way has shown nothing."""

    async def demo() -> int:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.Event().wait()
        return 0

    assert await until_told_to_stop(demo(), lambda: None, stopped=130) == 130


def test_a_platform_under_nohup_outlives_its_terminal(start: Start) -> None:
    """A signal that the caller made us ignore stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        platform = start()
    finally:
        signal.signal(signal.SIGHUP, before)
    platform.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        platform.wait(0.3)


def test_a_second_signal_kills_at_once(start: Start) -> None:
    """Who presses Ctrl-C twice does not wait for a part that takes 30 seconds to stop."""
    platform = start("ignore-sigterm")
    processes = descendants(platform.pid)
    platform.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        platform.wait(0.5)
    platform.send_signal(signal.SIGINT)
    assert platform.wait(5) == 0
    assert still_there(processes, within=0.5) == []


def test_a_killed_platform_leaves_no_process(start: Start) -> None:
    """After kill -9 nobody is left to stop the parts but the watchdog."""
    platform = start("with-child")
    processes = descendants(platform.pid)
    assert len(processes) >= 5, "the platform, two parts, a child of one, and the watchdog"
    platform.kill()
    assert still_there(processes, within=LEAVING_WITHIN) == []


def test_a_killed_platform_leaves_not_even_a_part_that_will_not_stop(start: Start) -> None:
    """The watchdog asks gently first, then it does not ask."""
    platform = start("ignore-sigterm")
    processes = descendants(platform.pid)
    platform.kill()
    assert still_there(processes, within=LEAVING_WITHIN) == []


def test_a_killed_platform_can_be_started_again_at_once(start: Start) -> None:
    """The new one waits until the old one's parts have let go of the data folder."""
    first = start()
    first.kill()
    second = start()
    second.terminate()
    assert second.wait(5) == 0


def test_a_part_that_dies_ends_the_program(start: Start) -> None:
    """The platform does not go on with a part missing."""
    platform = start()
    part = next(
        child
        for child in psutil.Process(platform.pid).children()
        if "fake_part.py" in "".join(child.cmdline())
    )
    part.kill()
    assert platform.wait(5) == 1
