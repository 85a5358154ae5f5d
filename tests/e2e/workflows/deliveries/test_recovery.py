"""Each kind of recovery, at each of the five steps of a delivery."""

from __future__ import annotations

import asyncio

import pytest

from local.platform import PartName
from tests.e2e.deliveries import BOOKED_ONCE, STEPS, asking, submit
from tests.e2e.recovery.bench import Bench, step
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_SIDE_BY_SIDE = {"package": "transport", "transport": "package"}


async def test_call_with_a_lost_response_is_retried(bench: Bench) -> None:
    """The work is done and the connection breaks: the retry has the same key, in the same epoch."""

    async def broken_off_at(name: str) -> None:
        task = f"broken-{name}"
        bench.remote.script(asking(task, name), Behaviour.BREAKS_OFF, Behaviour.ANSWERS)
        await submit(bench, task)
        found = await bench.until_state(task, "Processed")
        _assert_only_called_again(bench, task, name)
        assert found["epoch"] == 1

    await asyncio.gather(*map(broken_off_at, STEPS))


async def test_killed_scheduler_is_resumed_at_the_step_it_was_at(bench: Bench) -> None:
    """One `kill -9` during calls of all five steps: completed steps are not called again."""

    async def under_way_at(name: str) -> None:
        task = f"killed-{name}"
        bench.remote.script(asking(task, name), Behaviour.HANGS, Behaviour.ANSWERS)
        await submit(bench, task)
        await bench.until_called(asking(task, name))
        if name in _SIDE_BY_SIDE:
            other = _SIDE_BY_SIDE[name]
            await bench.until(task, lambda found: step(found, other)["state"] == "Completed")

    async def resumed_at(name: str) -> None:
        task = await bench.until_state(f"killed-{name}", "Processed")
        _assert_only_called_again(bench, task["id"], name)
        assert len(step(task, name)["do"]["attempts"]) > 1
        assert task["failure_count"] == task["epoch"] - 1

    await asyncio.gather(*map(under_way_at, STEPS))
    await bench.platform.kill(PartName.HOST)
    await bench.platform.start(PartName.HOST)
    await asyncio.gather(*map(resumed_at, STEPS))


def _assert_only_called_again(bench: Bench, task: str, name: str) -> None:
    """Check that only one service was called more than once, and that each effect happened once."""
    calls = {each: bench.remote.called(asking(task, each)) for each in STEPS}
    assert calls.pop(name) > 1
    assert set(calls.values()) == {1}
    assert sorted(bench.remote.effects(task)) == BOOKED_ONCE
