"""Measures what each start costs: the import of the application, and the platform until it is ready."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from local.platform import ROOT, PlatformError

_IMPORTS = 3
_PROGRAM = """
import time
start = time.perf_counter()
import function_app
print(time.perf_counter() - start)
"""


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Seconds: of `import function_app` in a new process, and of a platform's start until it is ready."""

    import_seconds: float
    ready_seconds: float


async def import_seconds(settings: Mapping[str, str]) -> float:
    """Return the median time of `import function_app`, whose tables exist already.

    Raises `PlatformError` when it can't be imported.
    """
    return median([await _import_once(settings) for _ in range(_IMPORTS)])


async def _import_once(settings: Mapping[str, str]) -> float:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PROGRAM), stdout=PIPE, stderr=PIPE, cwd=ROOT, env={**os.environ, **settings}
    )
    try:
        output, errors = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        reason = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise PlatformError(f"function_app can't be imported: {reason}")
    return float(output)
