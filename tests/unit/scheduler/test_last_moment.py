"""What is recorded in time is acted upon, and what is late is not begun."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.fakes.runners import limits
from tests.fakes.tasks import after, claimed, pending, started, told
from tests.fakes.workflows import LINE, step, workflow
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


@pytest.mark.parametrize("idempotent", [True, False])
async def test_outcome_of_what_must_not_be_repeated_is_told_as_long_as_its_activity_lives(
    *, idempotent: bool
) -> None:
    """A store that is down until after its complete-by costs no knowledge of a payment (§4)."""
    bench = Bench(workflow(step("pay", complete_within=10, idempotent=idempotent)))
    await bench.run()
    last = bench.store.limits[-1]
    assert last is not None
    assert (last > after(100)) is not idempotent
    assert last < after(limits().seconds)
