"""What is recorded in time is acted upon, and what is late is not begun."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.fakes.tasks import after, claimed, pending, started, told
from tests.fakes.workflows import LINE
from tests.unit.scheduler.bench import Bench
from tests.unit.scheduler.replay import Instance


@pytest.mark.filterwarnings("ignore:azure.functions df_loads was called:DeprecationWarning")
def test_instance_outlives_a_reply_that_is_recorded_at_the_last_moment() -> None:
    """It is recorded before complete-by, by the clock of its host, and the Scheduler is told a moment later.

    By then the instance has ended: what the reply makes ready waits for a recovery. (The Supervisor allows
    `skew_seconds` for just this.)
    """
    instance = Instance(queued=("pick",))
    instance.begin()
    instance.end(1, awaited={"pick": after(20).isoformat()})
    [timer] = instance.timers
    assert datetime.fromisoformat(timer["fireAt"]) > after(20)


async def test_run_again_calls_no_agent_after_complete_by() -> None:
    """Durable runs a lost activity again after minutes; complete-by is checked before each call (§8)."""
    bench = Bench(LINE)
    bench.store.put(told(pending(LINE), claimed(), started("pick", complete_by=7)))
    bench.clock.advance(8)
    await bench.run()
    assert bench.agents.calls == []
