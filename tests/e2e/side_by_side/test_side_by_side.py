"""Steps side by side on one platform: few transactions, and no failure is counted after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from local.platform import PartName
from tests.e2e.recovery.bench import PATIENCE, Bench, Task, step, until
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.side_by_side.conftest import running

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

_LOAD = {"weight": 3}


async def _submit(bench: Bench, resource: str, task: str) -> None:
    await bench.submit(task, resource, _LOAD)


async def _figures(bench: Bench) -> dict[str, int]:
    async with bench.session.get("/api/ops/figures") as answer:
        figures: dict[str, int] = (await answer.json())["table_storage"]
        return figures


async def _instance(bench: Bench, instance: str) -> dict[str, Any]:
    url = f"/runtime/webhooks/durabletask/instances/{instance}?showHistory=true"
    async with bench.session.get(url) as answer:
        found: dict[str, Any] = await answer.json() if answer.status in {200, 202} else {}
        return found


async def _until_ended(bench: Bench, instance: str) -> list[str]:
    """Wait for a Scheduler's end, without a read of the state store; name the events of its history."""
    async with asyncio.timeout(PATIENCE):
        while (await _instance(bench, instance)).get("runtimeStatus") != "Completed":
            await asyncio.sleep(0.05)
    return [event["EventType"] for event in (await _instance(bench, instance))["historyEvents"]]


def _spent(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in before}


async def _run_five_steps(bench: Bench) -> tuple[str, list[str]]:
    """Have five steps done in order; give the task, and the events of its Scheduler's history."""
    async with bench.session.post("/api/line", json=_LOAD) as answer:
        task = (await answer.json())["id"]
    return task, await _until_ended(bench, f"{task}.1")


async def _swept_until_state(bench: Bench, task: str, state: str) -> Task:
    """Have the Supervisor sweep until it has found the task overdue, and it has come to `state`."""
    async with asyncio.timeout(PATIENCE):
        while (found := await bench.look_at(task)) is None or found["state"] != state:
            async with bench.session.post("/admin/functions/supervisor", json={}, raise_for_status=True):
                await asyncio.sleep(0.5)
    await _until_swept(bench)
    return found


async def _until_swept(bench: Bench) -> None:
    """Wait until no sweep is under way: it would be counted with what another test costs."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with bench.session.get("/admin/host/status", raise_for_status=True) as answer:
                sweeps = (await answer.json())["functions"]["supervisor"]
            if sweeps["started"] == sweeps["succeeded"] + sweeps["failed"]:
                return
            await asyncio.sleep(0.1)


async def test_five_steps_in_order_cost_seven_transactions_and_one_activity(tmp_path: Path) -> None:
    """26 rows and no read, for a caller who leaves the id to us and wants no notices.

    On a platform of its own: the figures are those of all that a process does.
    """
    async with running(tmp_path) as bench:
        await _run_five_steps(bench)  # for the first of a process, a little more is read
        before = await _figures(bench)
        task, events = await _run_five_steps(bench)
        spent = _spent(before, await _figures(bench))
        assert events == ["ExecutionStarted", "TaskCompleted", "ExecutionCompleted"]
        assert spent == {"transactions": 7, "operations": 26, "reads": 0}
        await bench.until_state(task, "Processed")


async def test_reply_starts_what_it_makes_ready_while_a_slow_step_runs(bench: Bench) -> None:
    """What follows a step behind a queue is done before the held step is let go."""
    bench.remote.script("fork-1/held/do", Behaviour.WAITS)
    await _submit(bench, "fork", "fork-1")
    task = await bench.until("fork-1", lambda found: step(found, "after")["state"] == "Completed")
    assert step(task, "held")["state"] == "Running"
    await until(lambda: bench.remote.waiting("fork-1/held/do") == 1)
    bench.remote.release("fork-1/held/do", 0)
    task = await bench.until_state("fork-1", "Processed")
    assert (task["epoch"], bench.remote.called("fork-1/held/do")) == (1, 1)


async def test_crash_costs_neither_time_nor_a_failure(bench: Bench) -> None:
    """`kill -9` during a step: the same activity calls it again, before its complete-by, in the same epoch.

    A step that must not be repeated is not called again: its outcome is unknown, which an operator sees.
    """
    for task in ("twice-1", "once-1"):
        bench.remote.script(f"{task}/held/do", Behaviour.HANGS, Behaviour.ANSWERS)
        await _submit(bench, task.partition("-")[0], task)
        await bench.until_called(f"{task}/held/do")
    await bench.platform.kill(PartName.HOST)
    await bench.platform.start(PartName.HOST)
    resumed = await bench.until_state("twice-1", "Processed")
    assert (resumed["epoch"], resumed["failure_count"]) == (1, 0)
    assert bench.remote.called("twice-1/held/do") == 2
    held = await _swept_until_state(bench, "once-1", "Error")
    assert "held" in held["last_error"]
    assert bench.remote.called("once-1/held/do") == 1
