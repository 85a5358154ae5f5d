"""Each kind of recovery, at each of the five steps of a delivery."""

from __future__ import annotations

import asyncio

import pytest

from local.platform import PartName
from tests.e2e.recovery.bench import Bench, Task, events, step
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.workflows.deliveries.bench import submit
from tests.e2e.workflows.deliveries.services import BOOKED_ONCE, STEPS, asking

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_SIDE_BY_SIDE = {"package": "transport", "transport": "package"}


@pytest.mark.parametrize("behaviour", [Behaviour.HANGS, Behaviour.FORGETS])
async def test_agent_that_hangs_is_recovered_at_that_step(bench: Bench, behaviour: Behaviour) -> None:
    """Whether or not the service did its work: only it is called again, in epoch 2; no effect is doubled."""

    async def hanging_at(name: str) -> None:
        task = await _finished_after(bench, f"{behaviour.value}-{name}", name, behaviour)
        assert events(task) == ["submitted", "recovered"]
        assert (task["failure_count"], step(task, name)["epoch"]) == (1, 2)

    await asyncio.gather(*map(hanging_at, STEPS))


async def test_call_with_a_lost_response_is_retried(bench: Bench) -> None:
    """The work is done and the connection breaks: the retry has the same key, in the same epoch."""

    async def broken_off_at(name: str) -> None:
        task = await _finished_after(bench, f"broken-{name}", name, Behaviour.BREAKS_OFF)
        assert events(task) == ["submitted"]

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
        assert task["failure_count"] == task["epoch"] - 1

    await asyncio.gather(*map(under_way_at, STEPS))
    await bench.platform.kill(PartName.HOST)
    await bench.platform.start(PartName.HOST)
    await asyncio.gather(*map(resumed_at, STEPS))


async def test_service_that_comes_back_after_an_extended_wait_is_used(bench: Bench) -> None:
    """Down for longer than the threshold's recoveries: the delivery waits, and is then `Processed`."""

    async def down_at(name: str) -> None:
        task, effect = f"down-{name}", asking(f"down-{name}", name)
        bench.remote.script(effect, Behaviour.IS_DOWN)
        await submit(bench, task)
        waiting = await bench.until(task, lambda found: found["not_before"] is not None)
        assert waiting["failure_count"] == 2
        bench.remote.script(effect, Behaviour.ANSWERS)
        found = await bench.until_state(task, "Processed")
        assert events(found) == ["submitted", "recovered", "recovered"]
        _assert_only_called_again(bench, task, name)

    await asyncio.gather(*map(down_at, STEPS))


async def _finished_after(bench: Bench, task: str, name: str, behaviour: Behaviour) -> Task:
    """Return the task when it is `Processed`; one service shows the behaviour at first, and then answers."""
    effect = asking(task, name)
    bench.remote.script(effect, behaviour, Behaviour.ANSWERS)
    await submit(bench, task)
    found = await bench.until_state(task, "Processed")
    assert bench.remote.called(effect) == 2
    _assert_only_called_again(bench, task, name)
    return found


def _assert_only_called_again(bench: Bench, task: str, name: str) -> None:
    """Check that only one service was called more than once, and that each effect happened once."""
    calls = {each: bench.remote.called(asking(task, each)) for each in STEPS}
    assert calls.pop(name) > 1
    assert set(calls.values()) == {1}
    assert sorted(bench.remote.effects(task)) == BOOKED_ONCE
