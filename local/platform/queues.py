"""The queues and event hubs that the broker serves: declared in files; queues also by the app's bindings."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from local.platform.errors import PlatformError
from local.platform.options import PlatformOptions

_DECLARED = Path("infra", "queues.json")
_DECLARED_HUBS = Path("infra", "hubs.json")
#: Seconds in which the app must be loaded.
_LOADED_WITHIN = 60.0


def declared_queues(options: PlatformOptions) -> Path | None:
    """Return the file that declares the queues, or `None` where only the app's bindings name them."""
    declared = options.queues or options.app / _DECLARED
    return declared.resolve() if declared.exists() else None


def declared_hubs(options: PlatformOptions) -> Path | None:
    """Return the file that declares the app's event hubs, or `None` where it has none."""
    declared = options.app / _DECLARED_HUBS
    return declared.resolve() if declared.exists() else None


async def write_bound_queues(
    app: Path, environment: Mapping[str, str], file: Path, *, within: float = _LOADED_WITHIN
) -> None:
    """Write the queues that the bindings of `app` name to `file`, in the broker's format.

    `environment` holds the application settings, which a queue's name may refer to. Raises `PlatformError`
    with the reason when the app cannot be loaded, or is not loaded `within` that many seconds.
    """
    # Not a pipe, which a child process of the app would keep open after the app has ended.
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "functions_local", "--app", str(app), "--queues"),
            stdout=PIPE,
            stderr=errors,
            env={**os.environ, **environment},
        )
        try:
            queues = await _output(process, within)
        except TimeoutError as error:
            raise _unreadable(app, f"loading the app took more than {within:g} s") from error
        if process.returncode:
            errors.seek(0)
            raise _unreadable(app, errors.read().decode(errors="replace").strip())
    await asyncio.to_thread(_write, file, queues)


async def _output(process: Process, within: float) -> bytes:
    """Return what a process writes to stdout until it ends; kills it when that takes too long."""
    try:
        async with asyncio.timeout(within):
            output, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return output


def _unreadable(app: Path, reason: str) -> PlatformError:
    return PlatformError(
        f"The queues of {app} cannot be read from its bindings; "
        f"declare them in {_DECLARED} there, or fix this: {reason}"
    )


def _write(file: Path, text: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)
