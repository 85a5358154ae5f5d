"""300 tasks are in flight at every step when the application restarts with another definition.

None is undone or in `Error` by it. What can't go on is parked, at no cost, and goes on after the right
deployment; all others are processed as they were submitted.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice

import pytest

from functions.pattern.definition import Workflow
from functions.pattern.events import Event
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState
from tests.fakes.interventions import recovered
from tests.fakes.redeployments import CHANGES, SHOP
from tests.fakes.tasks import SECOND, claimed, completed, failed, pending, started, told
from tests.unit.scheduler.redeployed import Deployment

_TASKS = 300
_TOKEN = "t" * 16


def _until_here(task: TaskId) -> list[TaskRecord]:
    """Give a task at each point of its way: before, under and after each step, doing and undoing."""

    def begin(name: str) -> Event:
        return started(name, task=task, token=_TOKEN if name == "payment" else None)

    def end(name: str) -> Event:
        return completed(name, task=task, token=_TOKEN if name == "payment" else None)

    events = [
        claimed(task=task),
        begin("pick"),
        end("pick"),
        begin("payment"),
        begin("label"),
        end("label"),
        end("payment"),
        begin("send"),
    ]
    record = pending(SHOP, task)
    records = [record]
    for event in events:
        record = told(record, event)
        records.append(record)
    turned = told(record, failed("send", task=task))
    undoing = told(turned, claimed(SECOND, task=task), started("send", SECOND, task=task))
    return [*records, recovered(records[4]), turned, undoing]


def _in_flight() -> list[TaskRecord]:
    points = len(_until_here(TaskId("any")))
    return [
        _until_here(TaskId(f"task-{number}"))[point]
        for number, point in enumerate(islice(cycle(range(points)), _TASKS))
    ]


def _was_turned(record: TaskRecord) -> bool:
    return record.task.direction is Direction.UNDO


async def _restarted(*deployed: Workflow) -> tuple[Deployment, set[TaskId]]:
    """Restart with these definitions, and let everything come to rest; name what was being undone before."""
    application = Deployment(_in_flight())
    turned = {record.order.task for record in application.those(_was_turned)}
    application.deploy(*deployed)
    await application.until_at_rest()
    return application, turned


def _check(application: Deployment, turned: set[TaskId], *, parks: bool) -> None:
    """Nothing is undone that was not before, nothing is in `Error`, and all is done that is not parked."""
    assert {record.order.task for record in application.those(_was_turned)} == turned
    parked = application.those(lambda record: record.task.is_parked)
    assert bool(parked) is parks
    for record in application.those(lambda record: not record.task.is_parked):
        is_turned = record.order.task in turned
        end = ProcessState.COMPENSATED if is_turned else ProcessState.PROCESSED
        assert record.task.process_state is end
        assert (record.task.answer is None) is is_turned


async def _check_waiting(application: Deployment) -> None:
    """Let a month pass: it costs the parked tasks no write, no count, no epoch."""
    before = application.store.records()
    writes = application.store.writes
    for _ in range(3):
        application.clock.advance(10 * 86_400)
        await application.sweep()
    assert application.store.records() == before
    assert application.store.writes == writes


async def _check_going_on(application: Deployment, turned: set[TaskId], *deployed: Workflow) -> None:
    """Within a sweep of the right deployment all go on, uncounted, to the end that they would have had."""
    parked = application.those(lambda record: record.task.is_parked)
    counts = {record.order.task: record.task.failure_count for record in parked}
    application.deploy(*deployed)
    assert (await application.sweep()).released == len(parked)
    for task, count in counts.items():
        assert application.store.record(task).task.failure_count == count
    await application.until_at_rest()
    _check(application, turned, parks=False)


@pytest.mark.parametrize("change", CHANGES)
async def test_change_without_a_new_version_undoes_nothing(change: str) -> None:
    """Of what it lacks it is told by name; a step more is none of the old tasks' business."""
    application, turned = await _restarted(CHANGES[change])
    _check(application, turned, parks=change != "step inserted")
    await _check_waiting(application)
    await _check_going_on(application, turned, SHOP)


@pytest.mark.parametrize("change", CHANGES)
async def test_change_with_a_new_version_beside_the_old_one_parks_nothing(change: str) -> None:
    """The way that docs/changing-a-workflow.md recommends."""
    application, turned = await _restarted(replace(CHANGES[change], version=2), SHOP)
    _check(application, turned, parks=False)


@pytest.mark.parametrize("change", [*CHANGES, "workflow removed"])
async def test_version_that_was_dropped_too_early_parks_what_needs_it(change: str) -> None:
    """All that still had something to do, and nothing of it is lost."""
    deployed = [replace(of, version=2) for name, of in CHANGES.items() if name == change]
    application, turned = await _restarted(*deployed)
    _check(application, turned, parks=True)
    reasons = {record.task.last_error for record in application.those(lambda record: record.task.is_parked)}
    assert reasons == {"version 1 of 'shop' is not deployed here"}
    await _check_waiting(application)
    await _check_going_on(application, turned, *deployed, SHOP)
