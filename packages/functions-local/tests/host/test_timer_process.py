"""Timer functions in the running host: what the real worker library hands to them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from functions_local.timers.monitor import ScheduleMonitor, ScheduleStatus
from tests.host.conftest import WITHOUT_BROKER
from tests.host.processes import start_host, traces, until

pytestmark = pytest.mark.process


async def test_past_due_timer_runs_with_its_retries(tmp_path: Path) -> None:
    """A missed yearly run is made up for at start; the retry context counts, the record moves on."""
    monitor = ScheduleMonitor(tmp_path / "data" / "timers")
    last, due = (datetime(year, 1, 1) for year in (2020, 2021))  # noqa: DTZ001  timers count naive UTC
    monitor.save("fails_twice", ScheduleStatus(last=last, next=due, updated=last))
    host = await start_host(tmp_path, settings=WITHOUT_BROKER)
    await until(lambda: [trace["retry"] for trace in traces(tmp_path, "fails_twice")] == [0, 1, 2])
    now = datetime.now(UTC).replace(tzinfo=None)
    await until(lambda: (record := monitor.load("fails_twice")) is not None and record.next > now)
    await host.stop()


async def test_schedule_comes_from_a_setting_and_starts_at_once(tmp_path: Path) -> None:
    """%TICK% is resolved; runOnStartup runs it first, then each second."""
    host = await start_host(tmp_path, settings={**WITHOUT_BROKER, "TICK": "* * * * * *"})
    seen = await until(lambda: len(found := traces(tmp_path, "tick")) >= 3 and found)
    assert [trace["past_due"] for trace in seen[:3]] == [False, False, False]
    assert seen[2]["at"] % 1 < 0.5
    await host.stop()
