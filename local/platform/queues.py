"""The queues that the broker serves: declared in a file, or read from the app's bindings."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from local.platform.errors import PlatformError
from local.platform.options import PlatformOptions

_DECLARED = Path("infra", "queues.json")


def declared_queues(options: PlatformOptions) -> Path | None:
    """Return the file that declares the queues, or `None` where only the app's bindings name them."""
    declared = options.queues or options.app / _DECLARED
    return declared.resolve() if declared.exists() else None


async def write_bound_queues(app: Path, environment: Mapping[str, str], file: Path) -> None:
    """Write the queues that the bindings of `app` name to `file`, in the broker's format.

    `environment` holds the application settings, which a queue's name may refer to. Raises `PlatformError`
    with the reason when the app cannot be loaded.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "functions_local", "--app", str(app), "--queues"),
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, **environment},
    )
    try:
        queues, reason = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise PlatformError(
            f"The queues of {app} cannot be read from its bindings; "
            f"declare them in {_DECLARED} there, or fix this: {reason.decode(errors='replace').strip()}"
        )
    await asyncio.to_thread(_write, file, queues)


def _write(file: Path, text: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)
