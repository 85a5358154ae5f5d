"""The check under `func start` is never green by absence, and tells why func did not start."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from local.platform import ROOT

pytestmark = pytest.mark.process

_TOOLS = ("sh", "dirname", "mktemp", "curl", "tail", "sleep", "rm")


def _check(
    folder: Path, *, func: str | None, settings: bool = True, port: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script in a project of its own, with a `func` or without."""
    tools, script = folder / "tools", folder / "local" / "emulator" / "check"
    tools.mkdir()
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


def test_without_func_nothing_is_run_and_nothing_is_green(tmp_path: Path) -> None:
    """Its exit code is neither that of success nor that of a failure."""
    done = _check(tmp_path, func=None)
    assert (done.returncode, done.stderr) == (3, "not run: no func here\n")


def test_without_settings_nothing_is_run(tmp_path: Path) -> None:
    """What makes them is said."""
    done = _check(tmp_path, func="exit 0", settings=False)
    assert done.returncode == 3
    assert "cp local.settings.sample.json local.settings.json" in done.stderr


def test_func_that_ends_is_a_failure_with_its_last_lines(tmp_path: Path) -> None:
    """As when its Python is too old."""
    done = _check(tmp_path, func="echo 'Python 3.7.x to 3.12.x is required'; exit 1")
    assert done.returncode == 1
    assert "Python 3.7.x to 3.12.x is required" in done.stderr


def test_what_answers_there_already_is_not_taken_for_func(tmp_path: Path) -> None:
    """It would be verified in place of what func serves."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        done = _check(tmp_path, func="exit 0", port=server.server_port)
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    assert done.returncode == 3
    assert "something else answers" in done.stderr
