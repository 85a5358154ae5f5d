"""The real commands: the set-up of Python, and a platform with a tiny application."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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

type Up = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Yield a function that runs `python -m local up` for an app; its log goes to `log` in this folder."""
    started: list[subprocess.Popen[str]] = []

    def start(app: Path, data: str = "data") -> subprocess.Popen[str]:
        folders = ("--data", str(tmp_path / data), "--app", str(app))
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
    """Its connection, of any name, is the broker's, and the queue's name may be a setting.

    An app that can't be loaded is refused with its reason, before the broker starts.
    """
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

    (app / "function_app.py").write_text("raise RuntimeError('no such thing as this')")
    refused = up(app, "other")
    assert refused.wait(PATIENCE) == 1
    assert "no such thing as this" in (tmp_path / "log").read_text()


_REAL = Path(sys.executable)
#: The behaviour of pyenv's shim for a version that is installed but not selected.
_BROKEN_SHIM = "#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n"
_TOO_OLD = "#!/bin/sh\nexit 1\n"


def _find(home: Path, script: str = "find-python") -> subprocess.CompletedProcess[str]:
    """Run the script with a PATH that has only `home/bin` and what a shell needs."""
    environment = {"PATH": f"{home / 'bin'}:{home / 'system'}", "HOME": str(home)}
    return subprocess.run(
        [ROOT / "local" / "setup" / script], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return an empty home folder with an empty `bin`, and a `system` without Python."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "system").mkdir()
    return tmp_path


def _program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def _works(file: Path) -> None:
    _program(file, f'#!/bin/sh\nexec "{_REAL}" "$@"\n')


def _is_real(found: subprocess.CompletedProcess[str]) -> bool:
    return found.returncode == 0 and _REAL.samefile(found.stdout.strip())


def test_python_that_works_is_found(home: Path) -> None:
    """Not every machine has the name with the version. A shim that fails is passed over.

    The Pythons that uv or pyenv manages are not on the PATH.
    """
    for name in ("python3", "python3.13"):
        _works(home / "bin" / name)
        assert _is_real(_find(home))
    _program(home / "bin" / "python3.13", _BROKEN_SHIM)
    _program(home / "bin" / "python3", _TOO_OLD)
    _works(home / "managed" / "python3.13")
    _program(home / "bin" / "uv", f"#!/bin/sh\necho {home / 'managed' / 'python3.13'}\n")
    assert _is_real(_find(home))
    (home / "bin" / "uv").unlink()
    _works(home / ".pyenv" / "versions" / "3.13.0" / "bin" / "python")
    assert _is_real(_find(home))


def test_one_sentence_says_what_to_install(home: Path) -> None:
    """Nothing is on stdout, so that nothing is taken for a path. `npm` alone is not enough."""
    _program(home / "bin" / "python3", _TOO_OLD)
    found = [_find(home), _find(home, "check-node")]
    _program(home / "bin" / "npm", "#!/bin/sh\n")
    _program(home / "bin" / "node", _TOO_OLD)
    found.append(_find(home, "check-node"))
    wanted = ["Python 3.13 is needed", "Node 20 or later", "Node 20 or later"]
    for each, start in zip(found, wanted, strict=True):
        assert (each.returncode, each.stdout) == (1, "")
        assert each.stderr.startswith(start)
    assert found[0].stderr.count("\n") == 1
