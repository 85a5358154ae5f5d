"""A Supervisor with a wrong clock: the epoch keeps a task safe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.recovery.bench import PATIENCE, Bench, running, step, until
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.recovery.supervisor import sweep
from tests.e2e.recovery.workflows import STEPS

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

#: Seconds that a step may take: longer than any machine needs to start a Supervisor.
_STEP_SECONDS = 240


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform whose own Supervisor sweeps on New Year's Day only: the test starts its own."""
    settings = {
        "SUPERVISOR_SCHEDULE": "0 0 0 1 1 *",
        "SUPERVISOR_THRESHOLD": "3",
        # Longer than a step, so that a task that was recovered is not overdue while it waits for its run.
        "PICK_UP_SECONDS": "400",
        "RUN_SECONDS": "270",
        "STEP_SECONDS": ",".join(f"undone.{name}={_STEP_SECONDS}" for name in STEPS),
    }
    async with running(tmp_path_factory.mktemp("unsupervised"), settings) as bench:
        yield bench


async def test_reply_of_an_old_epoch_is_refused(bench: Bench) -> None:
    """The Agent of epoch 1 is in time by its own clock, but the task is in epoch 2 by then."""
    effect = "stale/b/do"
    bench.remote.script(effect, Behaviour.WAITS)
    await bench.submit("stale")
    await bench.until_called(effect)
    assert await sweep(bench.settings, "--clock-ahead", str(2 * _STEP_SECONDS)) == 1
    await until(lambda: bench.remote.waiting(effect) == 2)
    bench.remote.release(effect, 0)
    await _until_ended(bench, "stale.1.1")
    task = await bench.until("stale", lambda _: True)
    assert (task["state"], task["epoch"], step(task, "b")["state"]) == ("Processing", 2, "Running")
    bench.remote.release(effect, 1)
    await bench.until_state("stale", "Processed")
    async with bench.session.get("/api/ops/tasks/stale/steps/b/contents") as answer:
        assert '"call": 2' in (await answer.json())["result"]["text"]
    assert bench.remote.effects("stale") == ["a/do", "b/do", "c/do"]


async def _until_ended(bench: Bench, instance: str) -> None:
    """Wait until a run has ended."""
    url = f"/runtime/webhooks/durabletask/instances/{instance}"
    async with asyncio.timeout(PATIENCE):
        while True:
            async with bench.session.get(url) as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.1)
