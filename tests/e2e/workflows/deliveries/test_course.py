"""The course of a delivery: parallel steps, dependencies between steps, effects that happen once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.e2e.deliveries import asking, submit
from tests.e2e.recovery.bench import Bench, step, until
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


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
