"""`python -m local up` with the real parts and somebody's own application, as a newcomer runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from local.platform import ROOT
from tests.local.platform.processes import PATIENCE, descendants, left_running

pytestmark = pytest.mark.process

#: It has no queues, and nothing of this project's application.
_TINY_APP = Path(__file__).with_name("tiny_app")
_ANY_PORTS = ("--port", "0", "--sb-port", "0", "--admin-port", "0", "--azurite-ports", "0")
_BOUND_TO_A_QUEUE = '''
import azure.functions as func

app = func.FunctionApp()


@app.service_bus_queue_trigger(arg_name="message", queue_name="%GREETINGS%", connection="MyBroker")
def greet(message: func.ServiceBusMessage) -> None:
    """Take a greeting."""
'''

type Up = Callable[[Path], subprocess.Popen[str]]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Yield a function that runs `python -m local up` for an app; its log goes to `log` in this folder."""
    started: list[subprocess.Popen[str]] = []

    def start(app: Path) -> subprocess.Popen[str]:
        folders = ("--data", str(tmp_path / "data"), "--app", str(app))
        command = [sys.executable, "-m", "local", "up", *_ANY_PORTS, *folders]
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
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:  # noqa: S310 - an address of ours
        return str(response.read().decode())


def _queues(printed: list[str]) -> list[dict[str, Any]]:
    """Return what the broker says of its queues, at the address that was printed."""
    queues: list[dict[str, Any]] = json.loads(
        _get(next(line.split()[0] for line in printed if "figures" in line))
    )
    return queues


def test_everything_answers_when_it_says_ready_and_nothing_is_left_after_ctrl_c(
    up: Up, tmp_path: Path
) -> None:
    """The addresses are printed, the application gets them as settings, and the log names each part."""
    platform = up(_TINY_APP)
    printed, host = _until_ready(platform)
    service_bus = next(line.split()[1] for line in printed if "Service Bus" in line)
    assert _get(f"{host}/api/setting/ServiceBusConnection").startswith(f"Endpoint={service_bus};")
    assert _queues(printed) == []
    processes = descendants(platform.pid)

    platform.send_signal(signal.SIGINT)

    assert platform.wait(PATIENCE) == 0
    assert left_running(processes) == []
    log = (tmp_path / "log").read_text().splitlines()
    assert {line.split("|")[0].strip() for line in log} == {"azurite", "broker", "host"}


def test_an_app_without_declared_queues_gets_those_of_its_bindings(up: Up, tmp_path: Path) -> None:
    """Its connection, of whatever name, is the broker's, and the queue's name may be a setting."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "function_app.py").write_text(_BOUND_TO_A_QUEUE)
    (app / "host.json").write_text('{"version": "2.0"}')
    emulator = (
        "Endpoint=sb://localhost;SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true"
    )
    settings = {"Values": {"GREETINGS": "greetings", "MyBroker": emulator}}
    (app / "local.settings.json").write_text(json.dumps(settings))
    printed, _ = _until_ready(up(app))
    assert [queue["name"] for queue in _queues(printed)] == ["greetings"]


def test_an_app_that_cannot_be_loaded_is_refused_with_its_reason(up: Up, tmp_path: Path) -> None:
    """Before the broker, which needs the queues of its bindings."""
    (tmp_path / "function_app.py").write_text("raise RuntimeError('no such thing as this')")
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    assert up(tmp_path).wait(PATIENCE) == 1
    assert "no such thing as this" in (tmp_path / "log").read_text()


def test_a_second_start_on_the_same_folder_is_refused_in_one_line(up: Up, tmp_path: Path) -> None:
    """The first is not affected."""
    first = up(_TINY_APP)
    _, host = _until_ready(first)
    (tmp_path / "log").write_text("")
    second = up(_TINY_APP)
    assert second.wait(PATIENCE) == 2
    refusal = [line for line in (tmp_path / "log").read_text().splitlines() if "|" not in line]
    assert len(refusal) == 1
    assert f"in use by a running platform (process {first.pid})" in refusal[0]
    assert _get(f"{host}/api/setting/NO_SUCH_SETTING") == ""


def test_a_host_that_dies_ends_the_platform_and_is_named(up: Up, tmp_path: Path) -> None:
    """The others are stopped, and the last lines are about the part that died."""
    platform = up(_TINY_APP)
    _until_ready(platform)
    processes = descendants(platform.pid)
    os.kill(next(process.pid for process in processes if _is_host(process)), signal.SIGKILL)
    assert platform.wait(PATIENCE) == 1
    assert left_running(processes) == []
    assert "The host ended with exit code -9. Its last lines:" in (tmp_path / "log").read_text()


def _is_host(process: psutil.Process) -> bool:
    return "functions_local" in process.cmdline()
