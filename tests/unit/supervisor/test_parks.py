"""What is overdue and could go on only with another deployment is parked: no recovery, and no end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import BaseModel

from functions.pattern.definition import Workflow
from functions.pattern.events import Event
from functions.pattern.identity import Epoch
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, ProcessState, Remedy
from tests.fakes.interventions import cancellation, done
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, claimed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.supervisor.bench import Bench

FLOW = workflow(
    step("pick", undo=True),
    step("send", "pick", undo=True),
    name="shop",
    resource="shops",
    remedy=Remedy.COMPENSATE,
)
NEWER = replace(FLOW, version=2)
SHORTER = replace(FLOW, steps=(step("send", undo=True),))


class Stricter(BaseModel):
    """It asks for what no recorded payload has."""

    colour: str


#: More recoveries than the policy of the tests has.
USED_UP = 9


def _recovered_often(record: TaskRecord) -> TaskRecord:
    return replace(record, task=replace(record.task, failure_count=USED_UP))


@pytest.mark.parametrize(
    "events", [(), (claimed(),), (claimed(), started("pick"))], ids=["new", "held", "run"]
)
async def test_deployment_recovers_and_undoes_nothing(events: tuple[Event, ...]) -> None:
    """Its recoveries are used up, and its remedy is undo; it waits for its version, and then goes on."""
    bench = Bench(deployed=(NEWER,))
    bench.store.put(_recovered_often(told(pending(FLOW), *events)))
    bench.clock.advance(60)
    figures = await bench.sweep()
    task = bench.store.record(TASK).task
    assert (figures.parked, figures.recovered, figures.given_up) == (1, 0, 0)
    assert (task.is_parked, task.epoch, task.failure_count) == (True, FIRST, USED_UP)
    assert (task.direction, task.last_error) == (Direction.DO, "version 1 of 'shop' is not deployed here")
    bench.clock.advance(86_400)
    assert (await bench.sweep()).released == 0

    back = bench.rival("two", NEWER, FLOW)
    assert (await back.run()).released == 1
    task = bench.store.record(TASK).task
    assert (task.is_parked, task.epoch, task.failure_count) == (False, SECOND, USED_UP)


@pytest.mark.parametrize(
    "deployed",
    [(), (NEWER,), (replace(FLOW, payload=Stricter),), (SHORTER,)],
    ids=["nothing", "newer", "stricter", "shorter"],
)
async def test_task_that_nobody_has_claimed_costs_no_recovery(deployed: tuple[Workflow, ...]) -> None:
    """It was recorded, and the workflow went away before its Scheduler began: which comes too late then."""
    bench = Bench(deployed=deployed)
    bench.store.put(pending(FLOW))
    bench.clock.advance(POLICY.start_within.total_seconds() + 60)
    figures = await bench.sweep()
    record = bench.store.record(TASK)
    assert (figures.parked, figures.recovered) == (1, 0)
    assert (record.task.is_parked, record.task.epoch, record.task.failure_count) == (True, FIRST, 0)
    assert record.history == ()
    assert await bench.store.change(TASK, claimed()) == Refused(RefusalReason.PARKED)


async def test_undo_waits_for_its_deployment_too() -> None:
    """Instead of `Error`, from which an operator would have to lead it."""
    bench = Bench(deployed=(replace(FLOW, steps=(replace(FLOW.steps[0], undo=False),)),))
    turned = told(pending(FLOW), claimed(), *done("pick"), cancellation(), claimed(SECOND))
    bench.store.put(_recovered_often(told(turned, started("pick", SECOND))))
    bench.clock.advance(400)
    assert (await bench.sweep()).parked == 1
    assert bench.store.record(TASK).task.is_parked


async def test_what_is_in_question_is_held() -> None:
    """No deployment tells what came of it; the other step's does not matter."""
    once = workflow(step("pick", idempotent=False), step("send"), name="shop", resource="shops")
    bench = Bench(deployed=())
    bench.store.put(told(pending(once), claimed(), started("pick"), started("send")))
    bench.clock.advance(60)
    assert (await bench.sweep()).given_up == 1
    assert bench.store.record(TASK).task.process_state is ProcessState.ERROR


async def test_task_of_which_a_part_can_go_on_is_recovered() -> None:
    """It is parked when that part is done."""
    fork = workflow(step("left"), step("right"), name="shop", resource="shops")
    bench = Bench(deployed=(replace(fork, steps=fork.steps[:1]),))
    bench.store.put(told(pending(fork), claimed(), started("left"), started("right")))
    bench.clock.advance(60)
    assert (await bench.sweep()).recovered == 1
    assert bench.store.record(TASK).task.epoch == Epoch(2)
