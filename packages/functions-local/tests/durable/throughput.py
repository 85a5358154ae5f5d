"""Measures orchestrations a second: `python -m tests.durable.throughput [--profile]`."""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import sys
import tempfile
import time
from collections.abc import Generator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import azure.durable_functions as df

from functions_local.durable import EngineOptions
from functions_local.sqlite_log import Synchronous
from tests.durable.sdk import SdkApp

_ORCHESTRATIONS = 500
_CONCURRENCY = 50


def _app() -> SdkApp:
    app = SdkApp()

    @app.activity
    def add_one(number: int) -> int:
        return number + 1

    @app.orchestrator
    def chain(context: df.DurableOrchestrationContext) -> Generator[Any, Any, int]:
        number = 0
        for _ in range(context.get_input()):
            number = yield context.call_activity("add_one", number)
        return number

    return app


async def _measure(activities: int, synchronous: Synchronous) -> tuple[float, float, float]:
    """Return orchestrations a second, and the median and 99th percentile of their time in ms."""
    with tempfile.TemporaryDirectory() as folder:
        options = EngineOptions(
            max_concurrent_orchestrators=_CONCURRENCY,
            max_concurrent_activities=_CONCURRENCY,
            synchronous=synchronous,
        )
        engine = _app().engine(Path(folder) / "durable.sqlite", options)
        await engine.start()
        latencies: list[float] = []
        turn = asyncio.Semaphore(_CONCURRENCY)

        async def one() -> None:
            async with turn:
                begin = time.perf_counter()
                instance = await engine.client.start_new("chain", None, json.dumps(str(activities)))
                row = await engine.client.wait(instance, 60)
                assert row.output == str(activities), row
                latencies.append(time.perf_counter() - begin)

        begin = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(_ORCHESTRATIONS)))
        rate = _ORCHESTRATIONS / (time.perf_counter() - begin)
        await engine.stop()
        latencies.sort()
        p50, p99 = (1000 * latencies[int(len(latencies) * share)] for share in (0.5, 0.99))
        return rate, p50, p99


async def _table() -> None:
    history = import_module("azure.durable_functions.models.history.HistoryEvent")
    for patched in (False, True):
        if patched:
            history.dt_parse = datetime.fromisoformat  # type: ignore[attr-defined]  # as the worker does
        for activities in (2, 5):
            for synchronous in Synchronous:
                rate, p50, p99 = await _measure(activities, synchronous)
                parser = "fast" if patched else "SDK"
                sys.stdout.write(
                    f"{activities} activities, {synchronous.name:6}, {parser:4} date parser: "
                    f"{rate:4.0f}/s, p50 {p50:4.0f} ms, p99 {p99:4.0f} ms\n"
                )


if __name__ == "__main__":
    if "--profile" in sys.argv:
        with cProfile.Profile() as profile:
            asyncio.run(_table())
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    else:
        asyncio.run(_table())
