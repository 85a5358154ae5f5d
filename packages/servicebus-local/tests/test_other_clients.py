"""The clients for JavaScript, Go and Java, unmodified: programs in `other_clients`, where they can run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from servicebus_local.testing import RunningBroker
from tests.broker_process import environment

pytestmark = pytest.mark.process

_PROGRAMS = Path(__file__).with_name("other_clients")


def _run(*words: str | Path, folder: Path = _PROGRAMS, extra: dict[str, str] | None = None) -> None:
    """Run a program to its end; a failure contains its output."""
    done = subprocess.run(
        words, cwd=folder, env=environment(**extra or {}), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _download(*words: str | Path, folder: Path) -> None:
    """Download what a program needs, and skip its test where that can't be had."""
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"not run: {words[0]} can't download the client: {done.stderr or done.stdout}")


def _addresses(broker: RunningBroker) -> dict[str, str]:
    admin = f"http://127.0.0.1:{broker.endpoints.admin_port}"
    return {"CONNECTION_STRING": broker.connection_string, "ADMIN": admin}


def _require(*programs: str) -> None:
    """Skip the test where a program is missing; continuous integration must have Node."""
    for program in programs:
        if shutil.which(program) is None:
            assert program != "node" or "CI" not in os.environ, "node is not on PATH"
            pytest.skip(f"not run: {program} is not on PATH")


def test_javascript(broker: RunningBroker) -> None:
    """All tests of the client for JavaScript pass."""
    _require("node")
    package = Path("node_modules/@azure/service-bus")
    if not any((folder / package).exists() for folder in _PROGRAMS.parents):
        assert "CI" not in os.environ, "@azure/service-bus is not installed"
        pytest.skip("not run: @azure/service-bus is not installed")
    _run("node", "--test", "javascript.test.mjs", extra=_addresses(broker))


@pytest.mark.timeout(600)  # the client is compiled when it runs for the first time
def test_go(broker: RunningBroker, tmp_path: Path) -> None:
    """The program sends, settles in all ways, and loses nothing to receivers that come and go."""
    _require("go")
    folder, program = _PROGRAMS / "go", tmp_path / "program"
    _download("go", "mod", "download", folder=folder)
    _run("go", "build", "-o", program, ".", folder=folder)
    _run(program, extra=_addresses(broker))


@pytest.mark.timeout(600)  # the client is downloaded when it runs for the first time
def test_java(broker: RunningBroker, tmp_path: Path) -> None:
    """The same, with a footer, a refused verdict, a transaction, and thousands of messages at once."""
    _require("java", "javac", "mvn")
    folder, libraries = _PROGRAMS / "java", tmp_path / "libraries"
    copy = ("dependency:copy-dependencies", f"-DoutputDirectory={libraries}", f"-DbuildDirectory={tmp_path}")
    _download("mvn", "--quiet", "--batch-mode", *copy, folder=folder)
    _run("java", "-cp", f"{libraries}/*", "Main.java", folder=folder, extra=_addresses(broker))
