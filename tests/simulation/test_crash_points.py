"""The process stops before and after any request of one order, at every point; no invariant is violated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.core.definition.step_definition import (
    BaseStep,
    EventStep,
    QueueStep,
    Step,
    TimerStep,
    WorkflowStep,
)
from functions.core.definition.workflow_definition import Workflow
from functions.core.derive import ProcessState, derive
from tests.simulation import course
from tests.simulation.drawn import STEADY, DrawnPayload, DrawnResult, DrawnTask
from tests.simulation.host import Host
from tests.simulation.record_checks import ViolationError
from tests.simulation.search import run_course
from tests.simulation.world import World

pytestmark = [pytest.mark.timeout(600), pytest.mark.no_cover]

#: The task of a path. Its service refuses only the steps of `World.services.refused_steps`.
_TASK = f"{STEADY}-order"
#: Seconds after the admission at which the events of the task are sent.
_EVENT_AT = 3.0


def _agent_step(
    kind: type[Step[Any] | QueueStep[Any]], name: str, *needs: BaseStep[Any], **options: Any
) -> BaseStep[Any]:
    """Return a step of an Agent whose undo is its own request again."""
    given = {"complete_within": 20, "undo": True, "request": lambda *_: {"step": name}, **options}
    return kind(name, needs=list(needs), result=DrawnResult, **given)


def _processed(_world: World) -> Workflow[DrawnPayload]:
    """Return a workflow that is processed: a payment that must not be repeated, and an Agent's queue."""
    reserve = _agent_step(Step, "reserve", agent="a0")
    pay = _agent_step(Step, "pay", reserve, agent="f0", idempotent=False)
    ship = _agent_step(QueueStep, "ship", pay, agent="q0", complete_within=40)
    pack = _agent_step(Step, "pack", reserve, agent="a1")
    last = _agent_step(Step, "last", ship, pack, agent=STEADY)
    return _workflow("crashed", [reserve, pay, ship, pack, last])


def _undone(world: World) -> Workflow[DrawnPayload]:
    """Return a workflow whose last step is refused: an event, a timer, items and a child before it."""
    world.services.refused_steps.add((_TASK, "close"))
    approve = EventStep("approve", event=DrawnResult, complete_within=100, on_timeout="compensate")
    items = _agent_step(Step, "items", approve, agent="a0", for_each=lambda payload: payload.items, at_once=2)
    child = WorkflowStep(
        "child",
        workflow="child",
        request=lambda payload, _: {"task": payload.task},
        needs=[approve],
        complete_within=600,
    )
    until = timedelta(seconds=2)
    pause = TimerStep("pause", until=lambda *_: world.now() + until, needs=[items])
    pay = _agent_step(QueueStep, "pay", pause, agent="q1", idempotent=False, complete_within=40)
    close = _agent_step(Step, "close", pay, child, agent="a1")
    workflow = _workflow("crashed", [approve, items, child, pause, pay, close])
    booked = _agent_step(Step, "reply", agent="a0")  # a steady step of a task with another name
    world.definitions.workflows["child"] = _workflow("child", [booked])
    return workflow


def _workflow(name: str, steps: list[BaseStep[Any]]) -> Workflow[DrawnPayload]:
    return Workflow(
        name,
        payload=DrawnPayload,
        steps=steps,
        on_failure="compensate",
        on_exhausted="compensate",
        output=lambda payload, _: {"task": payload.task},
    )


PATHS: dict[str, Callable[[World], Workflow[DrawnPayload]]] = {"processed": _processed, "undone": _undone}


def run_point(path: str, number: int | None, *, hosts: int = 1) -> World:
    """Run a path, and stop a host at its access `number` to the world; None: at none.

    Raises `ViolationError`.
    """
    return run_course(0, partial(_run, path, number, hosts))


async def _run(path: str, number: int | None, hosts: int, world: World) -> None:
    world.is_faulty, world.intensity, world.crash_at = False, 1.0, number
    world.run_seconds, world.sweep_gap = 60, (8.0, 12.0)
    workflow = PATHS[path](world)
    world.definitions.workflows[workflow.name] = workflow
    world.definitions.tasks[_TASK] = task = DrawnTask(
        workflow, DrawnPayload(task=_TASK, items=[1, 2, 3]), frozenset({"f0"}), {"approve": _EVENT_AT}
    )
    world.hosts += [Host(world, f"h{each}") for each in range(hosts)]
    world.spawn(world.supervise())
    await world.intake.submit(_TASK, task)
    if "approve" in workflow.steps:
        world.spawn(world.people.send_event(_TASK, "approve", _EVENT_AT))
    await asyncio.sleep(_EVENT_AT)
    await course.finish(world)


#: Points of the shorter path, at least.
_LEAST_POINTS = 30
_CASES = [
    ("processed", 1),
    pytest.param("processed", 2, marks=pytest.mark.night),
    pytest.param("undone", 1, marks=pytest.mark.night),
    pytest.param("undone", 2, marks=pytest.mark.night),
]


@pytest.mark.parametrize(("path", "hosts"), _CASES)
def test_crash_at_any_point_violates_no_invariant(path: str, hosts: int) -> None:
    """One host is the whole application until another one starts; a second host continues at once."""
    points = run_point(path, None, hosts=hosts).crossings
    violated = []
    for number in range(1, points + 1):
        try:
            world = run_point(path, number, hosts=hosts)
        except ViolationError as violation:
            violated.append(f"point {number}: {violation}")
        else:
            assert world.faults.total() == 1
    assert violated == []
    assert points >= _LEAST_POINTS


@pytest.mark.parametrize(
    ("path", "end"), [("processed", ProcessState.PROCESSED), ("undone", ProcessState.COMPENSATED)]
)
def test_path_without_a_crash_has_its_end(path: str, end: ProcessState) -> None:
    """It is neither recovered nor decided by an operator."""
    world = run_point(path, None)
    [record] = [world.records[task] for task in world.definitions.tasks]
    assert (derive(record).state, record.failures) == (end, 0)
