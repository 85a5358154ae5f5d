"""`python -m local up` with the real parts and a tiny application, as a newcomer runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from local.platform.process import ROOT
from tests.local.platform.processes import descendants, still_there

pytestmark = pytest.mark.process

_TINY_APP = Path(__file__).with_name("tiny_app")
_ANY_PORTS = ("--port", "0", "--sb-port", "0", "--admin-port", "0", "--azurite-ports", "0")

type Up = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Give a function that runs `python -m local up` on this test's folder; its log goes to `log` there."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "local",
            "up",
            *_ANY_PORTS,
            "--data",
            str(tmp_path),
            "--app",
            str(_TINY_APP),
        ]
        with (tmp_path / "log").open("a") as log:
            platform = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT)
        started.append(platform)
        return platform

    yield start
    for platform in started:
        platform.kill()
        platform.communicate()


def _until_ready(platform: subprocess.Popen[str]) -> tuple[list[str], str]:
    """Return the lines before the ready line, and the host's address in it."""
    assert platform.stdout
    lines: list[str] = []
    for line in platform.stdout:
        if line.startswith("ready: "):
            return lines, line.removeprefix("ready: ").strip()
        lines.append(line)
    raise AssertionError(f"not ready: {lines}")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - an address of ours
        return str(response.read().decode())


def test_everything_answers_when_it_says_ready_and_nothing_is_left_after_ctrl_c(
    up: Up, tmp_path: Path
) -> None:
    """The addresses are told, the application gets them as settings, and the log names each part."""
    platform = up()
    table, host = _until_ready(platform)
    assert _get(f"{host}/api/health?setting=SAMPLE_SERVICES") == "1"
    service_bus = next(line.split()[1] for line in table if "Service Bus" in line)
    assert _get(f"{host}/api/health?setting=ServiceBusConnection").startswith(f"Endpoint={service_bus};")
    figures = next(line.split()[0] for line in table if "figures" in line)
    assert "submissions" in _get(figures)
    processes = descendants(platform.pid)

    platform.send_signal(signal.SIGINT)

    assert platform.wait(5) == 0
    assert still_there(processes, within=0.5) == []
    log = (tmp_path / "log").read_text().splitlines()
    assert {line.split("|")[0].strip() for line in log} == {"azurite", "broker", "host"}


def test_a_second_start_on_the_same_folder_is_refused_in_one_line(up: Up, tmp_path: Path) -> None:
    """The first goes on undisturbed."""
    first = up()
    _, host = _until_ready(first)
    (tmp_path / "log").write_text("")
    second = up()
    assert second.wait(10) == 2
    refusal = [line for line in (tmp_path / "log").read_text().splitlines() if "|" not in line]
    assert len(refusal) == 1
    assert f"in use by a running platform (process {first.pid})" in refusal[0]
    assert _get(f"{host}/api/health") == ""


def test_a_host_that_dies_ends_the_platform_and_is_named(up: Up, tmp_path: Path) -> None:
    """The others are stopped, and the last words are about the part that died."""
    platform = up()
    _until_ready(platform)
    processes = descendants(platform.pid)
    os.kill(next(process.pid for process in processes if _is_host(process)), signal.SIGKILL)
    assert platform.wait(5) == 1
    assert still_there(processes, within=0.5) == []
    assert "The host ended with exit code -9. Its last lines:" in (tmp_path / "log").read_text()


def _is_host(process: psutil.Process) -> bool:
    return "functions_local" in process.cmdline()
