"""A delivery end to end: parallel steps, each kind of recovery at each step, and its undo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from local.platform import PartName
from tests.e2e.deliveries import BOOKED_ONCE, STEPS, UNDONE, asking, booked, running, submit
from tests.e2e.recovery.bench import Bench, ends, step, until
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run the product's application; each step may take 6 seconds, after which it is recovered."""
    settings = {"STEP_SECONDS": ",".join(f"delivery.{step}=6" for step in STEPS)}
    async with running(tmp_path_factory.mktemp("deliveries"), settings) as bench:
        yield bench


async def test_package_and_transport_overlap_and_the_drone_waits_for_both(bench: Bench) -> None:
    """Both calls are in progress at once; when only one has been answered, the drone is not requested yet."""
    task, another, first, second = "overlap", "passes", "transport", "package"
    calls = {name: asking(task, name) for name in (first, second)}
    for effect in calls.values():
        bench.remote.script(effect, Behaviour.WAITS)
    await submit(bench, task)
    await until(lambda: all(bench.remote.waiting(effect) == 1 for effect in calls.values()))
    bench.remote.release(calls[first], 0)
    found = await bench.until(task, lambda found: step(found, first)["state"] == "Completed")
    assert step(found, "drone")["state"] == "Not started"
    await submit(bench, another)
    await bench.until_state(another, "Processed")  # so a drone would have been requested by now
    released_at = datetime.now(UTC)
    bench.remote.release(calls[second], 0)
    await bench.until_state(task, "Processed")
    asked_at = [call.at for call in bench.remote.calls if call.effect == asking(task, "drone")]
    assert len(asked_at) == 1
    assert asked_at[0] > released_at


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


async def test_undo_goes_in_reverse(bench: Bench) -> None:
    """The delivery is refused although it was scheduled: delivery, drone and package are undone."""
    bench.remote.script("blunder/delivery/do", Behaviour.BLUNDERS)
    await submit(bench, "blunder")
    task = await bench.until_state("blunder", "Compensated")
    assert (ends(task), task["reason"]) == (["refused"], "delivery: delivery answered 422")
    assert bench.remote.effects("blunder")[2:] == [
        "drone/do",
        "delivery/do",
        "delivery/undo",
        "drone/undo",
        "package/undo",
    ]


async def test_processed_delivery_is_cancelled_and_every_effect_undone(bench: Bench) -> None:
    """Its output is shown as long as it counts; a repeated cancel changes nothing."""
    await submit(bench, "changed-my-mind")
    await bench.until_state("changed-my-mind", "Processed")
    output = (await _read(bench, "changed-my-mind"))["output"]
    assert output == {"tracking_number": "T-7", "expected_at": "2026-11-21T13:00:00Z"}
    assert [await _cancel(bench, "changed-my-mind") for _ in range(2)] == [202, 202]
    task = await bench.until_state("changed-my-mind", "Compensated")
    assert ends(task) == ["cancelled"]
    assert sorted(bench.remote.effects("changed-my-mind")[:4]) == BOOKED_ONCE
    assert _undone(bench, "changed-my-mind") == [f"{step}/undo" for step in UNDONE]
    assert booked(bench.remote, "changed-my-mind") == {"transport"}  # a quote: nothing is bound by it
    assert (await _read(bench, "changed-my-mind"))["output"] is None
    assert await _cancel(bench, "changed-my-mind") == 202


async def test_delivery_under_way_is_cancelled_with_its_running_steps(bench: Bench) -> None:
    """The outcome of the drone's call does not count any more: it is undone as an unknown outcome is."""
    drone = asking("on-its-way", "drone")
    bench.remote.script(drone, Behaviour.WAITS)
    await submit(bench, "on-its-way")
    await bench.until_called(drone)
    assert await _cancel(bench, "on-its-way") == 202
    task = await bench.until_state("on-its-way", "Compensated")
    bench.remote.release(drone, 0)
    assert ends(task) == ["cancelled"]
    assert _undone(bench, "on-its-way") == ["drone/undo", "package/undo"]


async def _cancel(bench: Bench, task: str) -> int:
    async with bench.session.delete(f"/api/deliveries/{task}") as answer:
        return answer.status


async def _read(bench: Bench, task: str) -> dict[str, Any]:
    async with bench.session.get(f"/api/deliveries/{task}") as answer:
        shown: dict[str, Any] = await answer.json()
        return shown


def _undone(bench: Bench, task: str) -> list[str]:
    return [effect for effect in bench.remote.effects(task) if effect.endswith("/undo")]
