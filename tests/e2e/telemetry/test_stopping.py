"""A host that is stopped exports its telemetry, and stops in time even if no collector accepts it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from socket import socket

import psutil
import pytest

from local.platform import ANY_PORTS, PartName, Platform, PlatformOptions
from tests.e2e.fleet.bench import running, submit
from tests.e2e.recovery.bench import PATIENCE, until
from tests.e2e.telemetry.receiver import Receiver

pytestmark = [pytest.mark.night, pytest.mark.process]

#: Seconds; by default, the SDK waits longer than this for a collector.
_SOON = 25


async def test_pending_telemetry_is_exported_when_the_host_stops(tmp_path: Path) -> None:
    """Spans, log records and metrics are normally exported after a delay of seconds."""
    async with Receiver().serving() as receiver:
        never = dict.fromkeys(_DELAYS, "3600000")
        async with running(tmp_path, {**never, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}) as bench:
            await submit(bench, "last")
            await bench.until_state("last", "Processed")
            assert receiver.raw == []
            # Not by the platform, which kills a host that is slow on a busy machine.
            os.kill(bench.platform.pid(PartName.HOST), signal.SIGTERM)
            await until(lambda: bool(receiver.spans and receiver.records and receiver.metrics))
    assert {"submit", "run_steps", "step delivery"} <= {span.name for span in receiver.of_task("last")}
    assert any(record.text.startswith("supervisor sweep") for record in receiver.records)
    assert "tasks.processed" in receiver.metrics


_DELAYS = ("OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL")


@pytest.mark.parametrize("is_silent", [False, True], ids=["refuses", "is silent"])
async def test_unavailable_collector_does_not_delay_the_stop(tmp_path: Path, *, is_silent: bool) -> None:
    """Whether it refuses connections or never answers, the host ends by itself without waiting for it."""
    with socket() as collector:
        collector.bind(("127.0.0.1", 0))
        collector.listen()
        collector.setblocking(False)
        endpoint = f"http://127.0.0.1:{collector.getsockname()[1]}"
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        options = PlatformOptions(ports=ANY_PORTS, data=tmp_path, settings=settings, in_memory_storage=True)
        async with Platform(options) as platform:
            async with asyncio.timeout(PATIENCE):
                tried, _ = await asyncio.get_running_loop().sock_accept(collector)
            with tried:
                if not is_silent:
                    tried.close()
                    collector.close()
                host = platform.pid(PartName.HOST)
                os.kill(host, signal.SIGTERM)  # not by the platform, as above
                async with asyncio.timeout(_SOON):
                    while psutil.pid_exists(host):
                        await asyncio.sleep(0.1)
