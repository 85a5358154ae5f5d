"""The operator's actions: resubmit from where the task stopped, or undo."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.recovery.bench import Bench, events
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def _in_error(bench: Bench, task: str) -> None:
    bench.remote.script(f"{task}/b/do", Behaviour.REFUSES, Behaviour.ANSWERS)
    await bench.submit(task, "held")
    found = await bench.until_state(task, "Error")
    assert found["last_error"] == "b: b answered 422"


async def test_resubmitted_task_resumes_at_the_failed_step(bench: Bench) -> None:
    """The operator fixes the service and resubmits: completed steps are not repeated."""
    await _in_error(bench, "fixed")
    assert await bench.act("fixed", "resubmit") == 202
    task = await bench.until_state("fixed", "Processed")
    assert bench.remote.called("fixed/a/do") == 1
    assert bench.remote.effects("fixed") == ["a/do", "b/do", "c/do"]
    assert events(task) == ["submitted", "resubmitted"]
    assert task["history"][-1]["reason"] == "the service is fixed"
    assert [each["state"] for each in task["history"][-1]["steps"]] == ["Completed", "Failed", "NotStarted"]


async def test_operator_has_a_held_task_undone(bench: Bench) -> None:
    """Also the step that was refused, whose earlier attempts may have had an effect."""
    await _in_error(bench, "cancelled")
    assert await bench.act("cancelled", "undo") == 202
    task = await bench.until_state("cancelled", "Compensated")
    assert events(task) == ["submitted", "undo requested"]
    assert bench.remote.effects("cancelled") == ["a/do", "b/undo", "a/undo"]


async def test_of_two_operators_at_once_one_wins(bench: Bench) -> None:
    """The other gets a 409, and one epoch is opened."""
    await _in_error(bench, "contested")
    answers = await asyncio.gather(bench.act("contested", "resubmit"), bench.act("contested", "undo"))
    assert sorted(answers) == [202, 409]
    task = await bench.until("contested", lambda found: found["state"] in {"Processed", "Compensated"})
    assert task["epoch"] == 2
