"""Supervisors that crash, compete, or have a wrong clock: epoch and ETag alone keep tasks safe."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
import pytest_asyncio

from tests.e2e.caller import rows
from tests.e2e.recovery.bench import PATIENCE, SKEW_SECONDS, Bench, events, running, step, until
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.recovery.supervisor import sweep
from tests.e2e.recovery.workflows import STEPS

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

#: Seconds that a step may take: longer than any machine needs to start a Supervisor.
_STEP_SECONDS = 240
#: Longer than a step, so that a task that was recovered is not overdue while it waits for its Scheduler.
_PICK_UP_SECONDS = 400
#: For a clock this far ahead, every step in progress is overdue; and further ahead, also what it recovered.
_AHEAD = ("--clock-ahead", str(2 * _STEP_SECONDS))
_FAR_AHEAD = ("--clock-ahead", str(2 * (_STEP_SECONDS + _PICK_UP_SECONDS)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform whose own Supervisor sweeps on New Year's Day only: the tests start their own."""
    settings = {
        "SUPERVISOR_SCHEDULE": "0 0 0 1 1 *",
        "SUPERVISOR_THRESHOLD": "3",
        "PICK_UP_SECONDS": str(_PICK_UP_SECONDS),
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
    assert (await sweep(bench.settings, *_AHEAD)).recovered == 1
    await until(lambda: bench.remote.waiting(effect) == 2)
    bench.remote.release(effect, 0)
    assert await _outcome(bench, "stale.1") == "stale epoch"
    task = await bench.until("stale", lambda _: True)
    assert (task["state"], task["epoch"], step(task, "b")["state"]) == ("Processing", 2, "Running")
    bench.remote.release(effect, 1)
    await bench.until_state("stale", "Processed")
    (row,) = rows(bench.platform, "Tasks", "RowKey eq 'stale|step|01'")
    assert (row["Epoch"], row["Result"]) == (2, b'{"call":2}')
    assert bench.remote.effects("stale") == ["a/do", "b/do", "c/do"]


async def test_supervisors_at_once_recover_a_task_once(bench: Bench) -> None:
    """Three sweep the same five tasks at once, and none is recovered twice.

    Their clocks stand at the time from which all five are overdue, and no step that starts later is, however
    long the machine takes to start three processes.
    """
    tasks = [f"contested-{number}" for number in range(5)]
    for task in tasks:
        bench.remote.script(f"{task}/b/do", Behaviour.HANGS, Behaviour.ANSWERS)
        await bench.submit(task)
    for task in tasks:
        await bench.until_called(f"{task}/b/do")
    begun = [await bench.until(task, lambda each: step(each, "b")["state"] == "Running") for task in tasks]
    latest = max(datetime.fromisoformat(step(each, "b")["complete_by"]) for each in begun)
    clock = ("--clock-stands-at", (latest + timedelta(seconds=SKEW_SECONDS)).isoformat())
    swept = await asyncio.gather(*(sweep(bench.settings, *clock) for _ in range(3)))
    assert sum(each.recovered for each in swept) == len(tasks)
    for task in tasks:
        found = await bench.until_state(task, "Processed")
        assert (found["failure_count"], found["epoch"]) == (1, 2)
        assert events(found) == ["submitted", "recovered"]
        assert bench.remote.called(f"{task}/b/do") == 2


async def test_supervisor_killed_before_its_message_delays_the_task_only(bench: Bench) -> None:
    """The recovery is recorded, the request never sent: the next sweep finds the task overdue again."""
    bench.remote.script("orphan/b/do", Behaviour.HANGS, Behaviour.ANSWERS)
    await bench.submit("orphan")
    await bench.until_called("orphan/b/do")
    assert (await sweep(bench.settings, *_AHEAD, "--dies-before-sending")).returncode == -signal.SIGKILL
    task = await bench.until("orphan", lambda _: True)
    assert (task["state"], task["epoch"], task["locked_by"]) == ("Pending", 2, None)
    assert (await sweep(bench.settings, *_FAR_AHEAD)).recovered == 1
    task = await bench.until_state("orphan", "Processed")
    assert events(task) == ["submitted", "recovered", "recovered"]
    assert (task["failure_count"], bench.remote.called("orphan/a/do")) == (2, 1)


async def _outcome(bench: Bench, instance: str) -> str:
    """Wait until a Scheduler instance has ended, and return its output."""
    url = f"/runtime/webhooks/durabletask/instances/{instance}"
    async with asyncio.timeout(PATIENCE):
        while True:
            async with bench.session.get(url) as answer:
                if answer.status == 200:
                    return str((await answer.json())["output"])
            await asyncio.sleep(0.1)
