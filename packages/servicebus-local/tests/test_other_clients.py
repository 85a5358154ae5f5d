"""The clients for JavaScript, Go and Java, unmodified: the programs in `other_clients`, where they can run."""

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


def _run(*words: str | Path, folder: Path = _PROGRAMS, **extra: str) -> None:
    """Run a program to its end, and fail with what it printed."""
    done = subprocess.run(
        words, cwd=folder, env=environment(**extra), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _addresses(broker: RunningBroker) -> dict[str, str]:
    admin = f"http://127.0.0.1:{broker.endpoints.admin_port}"
    return {"CONNECTION_STRING": broker.connection_string, "ADMIN": admin}


def _require(program: str) -> None:
    """Skip the test where a program is missing; continuous integration must have Node."""
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
    _run("node", "--test", _PROGRAMS, **_addresses(broker))
