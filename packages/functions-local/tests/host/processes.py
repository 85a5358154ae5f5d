"""Starts the host and the broker as a user does, and reads their output."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"

#: Every process that a test started; those that a failed test left are killed after it.
STARTED: list[asyncio.subprocess.Process] = []

#: Seconds after which something a test waits for counts as failed.
PATIENCE = 60.0


@dataclass(slots=True)
class Part:
    """A running part of the platform: its process, its ready line, and its log."""

    process: asyncio.subprocess.Process
    ready: str
    log_file: Path

    @property
    def log(self) -> str:
        """Everything it has written to stderr."""
        return self.log_file.read_text()

    async def stop(self, sent: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and return its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(sent)
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


async def start(module: str, *arguments: object, environment: dict[str, str], log_file: Path) -> Part:
    """Start `python -m module` and wait for its ready line; AssertionError with its log if it exits."""
    with log_file.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *map(str, arguments),
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    STARTED.append(process)
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()
    assert line.startswith("ready: "), f"{module} said {line!r}\n{log_file.read_text()}"  # noqa: ASYNC240 - the test ends here
    return Part(process, line.removeprefix("ready: "), log_file)


async def run_to_its_end(app: Path, *arguments: object, **environment: str) -> tuple[int | None, str, str]:
    """Run the host until it exits; return exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "functions_local", "--app", str(app), "--data", str(app / "data"), *map(str, arguments)),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    STARTED.append(process)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode, out.decode(), err.decode()


async def start_host(
    folder: Path, *arguments: object, app: Path = APP, settings: Mapping[str, str] | None = None
) -> Part:
    """Start the host on a free port with its state and its log below `folder`. `ready` is its URL."""
    return await start(
        "functions_local",
        *("--app", app, "--port", 0, "--data", folder / "data"),
        *arguments,
        environment={"TRACES": str(folder), **(settings or {})},
        log_file=folder / "host.log",
    )


async def start_broker(folder: Path, port: int = 0, config: Path = APP / "queues.json") -> Part:
    """Start the broker with the test app's queues, or those of another configuration."""
    return await start(
        "servicebus_local",
        *("--config", config, "--port", port, "--admin-port", 0, "--data", folder / "broker"),
        environment={},
        log_file=folder / "broker.log",
    )


def print_queues(app: Path, **settings: str) -> Any:
    """Run `--queues` and return its stdout, which must be a single JSON value."""
    command = [sys.executable, "-m", "functions_local", "--app", str(app), "--queues"]
    environment = {**os.environ, **settings}
    run = subprocess.run(
        command, cwd=app.parent, env=environment, stdout=subprocess.PIPE, check=True, timeout=60
    )
    return json.loads(run.stdout)


def broker_port(broker: Part) -> int:
    """Read the AMQP port from the broker's ready line."""
    match = re.match(r"sb://127\.0\.0\.1:(\d+)", broker.ready)
    assert match is not None
    return int(match[1])


def connection_string(port: int) -> str:
    """Return the connection string of the local broker for an app's settings."""
    keys = "SharedAccessKeyName=local;SharedAccessKey=local;UseDevelopmentEmulator=true"
    return f"Endpoint=sb://127.0.0.1:{port};{keys}"


def traces(folder: Path, name: str) -> list[dict[str, Any]]:
    """Read the trace that the app's functions wrote under a name."""
    file = folder / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def until[Found](
    look: Callable[[], Found | Literal[False] | None], *, seconds: float = PATIENCE
) -> Found:
    """Call `look` until it returns something true. Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        await asyncio.sleep(0.02)
    return found
