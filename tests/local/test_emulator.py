"""What runs without the platform: Microsoft's emulator, func start, another Python."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from local.platform import ROOT

_TOOLS = ("sh", "dirname", "mktemp", "curl", "tail", "sleep", "rm")


def test_durations_stay_within_the_emulators_limits() -> None:
    """Durations above the emulator's limits are shortened; other values are as in Azure."""
    azure, emulator = (
        json.loads((ROOT / path).read_text(encoding="utf-8"))
        for path in ("infra/queues.json", "local/emulator/config.json")
    )
    [namespace] = emulator["UserConfig"]["Namespaces"]
    shortened = {"DefaultMessageTimeToLive": "PT1H", "DuplicateDetectionHistoryTimeWindow": "PT5M"}
    for queue, emulated in zip(azure["queues"], namespace["Queues"], strict=True):
        properties = {f"{name[0].upper()}{name[1:]}": value for name, value in queue["properties"].items()}
        within = {name: value for name, value in shortened.items() if name in properties}
        assert emulated == {"Name": queue["name"], "Properties": properties | within}


def test_python_without_the_project_names_the_right_one() -> None:
    """As the shell's own, which may be older; `-S` leaves out what is installed."""
    command = [sys.executable, "-S", "-m", "local", "up"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "this Python lacks the project: `make setup`, then .venv/bin/python -m local\n"


def _check(
    folder: Path, *, func: str | None, settings: bool = True, port: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script in a project of its own, with a `func` or without."""
    tools, script = folder / "tools", folder / "local" / "emulator" / "check"
    tools.mkdir(parents=True)
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / "local" / "emulator" / "check", script)
    for name in _TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    if func is not None:
        (tools / "func").write_text(f"#!/bin/sh\n{func}\n")
        (tools / "func").chmod(0o755)
    if settings:
        (folder / "local.settings.json").write_text("{}")
    environment = {"PATH": str(tools), "FUNC_PORT": str(port or _free_port())}
    return subprocess.run([script], env=environment, capture_output=True, text=True, timeout=60, check=False)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.process
def test_check_that_is_not_run_is_neither_green_nor_a_failure(tmp_path: Path) -> None:
    """The reason is printed; a func that ends is a failure with its last lines.

    Another server that answers there would be verified in place of func.
    """
    too_old = "echo 'Python 3.7.x to 3.12.x is required'; exit 1"
    cases = {
        "not run: no func here\n": _check(tmp_path / "1", func=None),
        "cp local.settings.sample.json local": _check(tmp_path / "2", func="exit 0", settings=False),
        "3.7.x to 3.12.x is required": _check(tmp_path / "3", func=too_old),
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=_answer_once, args=(server,))
        serving.start()
        port = server.getsockname()[1]
        cases["something else answers"] = _check(tmp_path / "4", func="exit 0", port=port)
        serving.join()
    assert [each.returncode for each in cases.values()] == [3, 3, 1, 3]
    for printed, done in cases.items():
        assert printed in done.stderr


def _answer_once(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
