"""The longest pause for garbage collection, measured inside the host and read by the benchmark."""

from __future__ import annotations

import gc
import time

import aiohttp
import azure.functions as func

_ROUTE = "longest-pause"


def serve_longest_pause(app: func.FunctionApp) -> None:
    """Measure each garbage collection of this process, and add a function that returns the longest.

    Its CPU time is measured, which a busy machine does not change.
    """
    started = longest = 0.0

    def measure(phase: str, _: dict[str, int]) -> None:
        nonlocal started, longest
        if phase == "start":
            started = time.thread_time()
        else:
            longest = max(longest, time.thread_time() - started)

    @app.route(_ROUTE, "_request", auth_level=func.AuthLevel.ANONYMOUS)
    def longest_pause(_request: func.HttpRequest) -> str:
        return str(longest)

    gc.callbacks.append(measure)


async def longest_pause(session: aiohttp.ClientSession) -> float:
    """Return the CPU time of the longest pause since the host's start, in seconds."""
    async with session.get(f"/api/{_ROUTE}", raise_for_status=True) as answer:
        return float(await answer.text())
