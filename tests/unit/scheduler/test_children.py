"""A task as a step: begun once, awaited at no cost, undone with its parent, whenever a host dies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from functions.pattern.errors import PermanentError, UnwritableError
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, Remedy
from tests.fakes.agents import raising
from tests.fakes.interventions import cancellation, resubmission, result_given
from tests.fakes.tasks import FIRST, SECOND
from tests.fakes.workflows import TASK, nested, step, workflow
from tests.unit.scheduler.family import CAR, HOUR, Family, family_of, rental, trip


async def test_child_is_processed_and_its_parent_goes_on() -> None:
    """In one epoch and two runs; the child belongs to the same caller."""
    family = family_of()
    await family.settle()
    assert family.agents.steps == ["fly", "rent", "insure", "pay"]
    assert (family.state, family.parent.task.epoch, family.parent.task.run) == (
        ProcessState.PROCESSED,
        FIRST,
        1,
    )
    order, parent = family.child().order, family.parent.order
    assert (order.workflow, order.submitter, order.correlation_id) == ("rental", "tester", "c-1")
    assert order.parent is not None
    assert (order.parent.task, order.parent.birth, order.parent.step) == (TASK, parent.birth, "car")
    assert family.parent.step(CAR).result == b"{}"


async def test_answer_is_the_result() -> None:
    """As its workflow makes it."""
    family = family_of()
    family.store.complete = lambda record: (
        replace(record, task=replace(record.task, answer=b'{"rented":true}'))
        if record.order.parent
        else record
    )
    await family.settle()
    assert family.parent.step(CAR).result == b'{"rented":true}'


async def test_refused_child_is_undone_and_its_parent_too() -> None:
    """Each by its own workflow's remedy."""
    family = family_of()
    family.agents.behaviours["insure"] = raising(PermanentError("no"))
    await family.settle()
    assert family.agents.steps == ["fly", "rent", "insure", "rent undo", "fly undo"]
    assert (family.state, family.child().task.process_state) == (ProcessState.COMPENSATED,) * 2
    assert family.parent.task.last_error == "car: insure: no"


async def test_parent_waits_for_an_operator_of_its_child() -> None:
    """Uncounted; then it goes on as if nothing had been."""
    family = family_of(remedy=Remedy.HOLD)
    family.agents.behaviours["insure"] = raising(PermanentError("no"))
    await family.settle()
    assert family.child().task.process_state is ProcessState.ERROR
    family.clock.advance(HOUR - 60)
    assert (await family.supervised.sweep()).found == 0
    del family.agents.behaviours["insure"]
    await family.store.change(family.child().order.task, replace(resubmission(), start_by=family.clock.now()))
    await family.settle()
    assert (family.state, family.parent.task.failure_count) == (ProcessState.PROCESSED, 0)


async def test_child_that_is_stuck_for_too_long_is_undone_with_its_parent() -> None:
    """Its time is the parent's to say."""
    family = family_of(remedy=Remedy.HOLD)
    family.agents.behaviours["insure"] = raising(PermanentError("no"))
    await family.settle()
    family.clock.advance(HOUR + 10)
    report = await family.supervised.sweep()
    assert (report.waited, report.recovered) == (1, 0)
    await family.settle()
    assert (family.state, family.child().task.process_state) == (ProcessState.COMPENSATED,) * 2
    assert family.agents.steps[-2:] == ["rent undo", "fly undo"]


async def test_processed_child_is_undone_with_its_parent() -> None:
    """As an operator may cancel what is processed, whatever its own workflow allows its callers."""
    family = family_of()
    await family.settle()
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert family.agents.steps[-2:] == ["rent undo", "fly undo"]
    assert family.child().history[-1].who == "scheduler"
    assert family.child().task.last_error == "the task of which it is a step is undone"
    assert family.state is ProcessState.COMPENSATED


async def test_child_that_is_not_admitted_yet_never_will_be() -> None:
    """Its place is taken by one that is undone: the run that is late finds it."""
    family = family_of()
    admit, late = family.store.admit, list[TaskRecord]()

    async def keep(record: TaskRecord) -> Any:
        late.append(record)
        raise RuntimeError("it takes its time")

    family.store.admit = keep  # type: ignore[method-assign]
    await family.settle()
    family.store.admit = admit  # type: ignore[method-assign]
    assert family.states == {"fly": "Completed", "car": "Running", "pay": "NotStarted"}
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert family.state is ProcessState.COMPENSATED
    [child] = late
    assert (await family.store.admit(child)).stored.record.task.process_state is ProcessState.COMPENSATED
    assert "rent" not in family.agents.steps


async def test_child_that_was_processed_and_is_gone_is_an_operator_s() -> None:
    """What it did stands, and nobody knows any more what to undo."""
    family = family_of()
    await family.settle()
    family.store.remove(family.child().order.task)
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert family.state is ProcessState.ERROR
    assert "was processed, and is gone" in (family.parent.task.last_error or "")


async def test_request_that_the_child_does_not_take_holds_the_parent() -> None:
    """It is a defect of the definition: no other try mends it, and nothing was begun."""
    of = replace(trip(), steps=(replace(nested("car", of="rental"), request=lambda *_: {"wait": 1}),))
    family = Family(of, rental())
    await family.settle()
    assert family.state is ProcessState.ERROR
    expected = "car: 'rental' does not take its request: weight: Field required"
    assert family.parent.task.last_error == expected
    assert len(family.store) == 1


async def test_child_of_many_items_is_refused_as_an_order_would_be() -> None:
    """With the same words."""
    of = workflow(nested("car", of="rental"), remedy=Remedy.HOLD)
    many = workflow(
        replace(step("rent"), request=lambda *_: {}, for_each=lambda _: list(range(100))),
        name="rental",
        resource="rentals",
    )
    family = Family(of, many)
    await family.settle()
    assert "'rental' does not take its request: It has too many items" in (
        family.parent.task.last_error or ""
    )


async def test_child_whose_rows_can_t_be_written_holds_the_parent() -> None:
    """The state store would refuse them again."""
    family = family_of()

    async def refuse(record: TaskRecord) -> Any:
        raise UnwritableError(record.order.task, "PropertyValueTooLarge")

    family.store.admit = refuse  # type: ignore[method-assign]
    await family.settle()
    assert family.state is ProcessState.ERROR
    assert "can't be written: PropertyValueTooLarge" in (family.parent.task.last_error or "")


async def test_child_of_which_an_operator_has_given_the_result_need_not_be_there_to_be_undone() -> None:
    """It could not be begun; what may fail waits for its definition as if it had never been started."""
    family = family_of(on_failure=Remedy.CONTINUE)
    admit = family.store.admit

    async def refuse(record: TaskRecord) -> Any:
        raise UnwritableError(record.order.task, "PropertyValueTooLarge")

    family.store.admit = refuse  # type: ignore[method-assign]
    await family.settle()
    assert family.states["car"] == "NotStarted"
    family.store.admit = admit  # type: ignore[method-assign]
    await family.store.change(TASK, replace(result_given("car"), start_by=family.clock.now()))
    await family.settle()
    assert family.states["car"] == "Completed"
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert family.state is ProcessState.COMPENSATED


async def test_parent_is_parked_where_the_child_s_workflow_is_not_deployed() -> None:
    """Also when the child's step has begun; it goes on uncounted when it is."""
    family = family_of()
    family.dies_at = 4  # the child's admission
    await family.settle()
    assert family.states["car"] == "Running"
    family.dies_at = None
    family.deploy(replace(workflow(step("walk")), version=2))
    await family._run((TASK, 1, None))
    assert family.parent.task.is_parked
    family.deploy(trip(), rental())
    await family.live_on(2)
    assert (family.state, family.parent.task.failure_count) == (ProcessState.PROCESSED, 0)


async def test_child_takes_the_newest_version() -> None:
    """Of its admission; the parent's own stays as it was."""
    family = Family(trip(), rental(), rental(version=2))
    await family.settle()
    assert (family.child().order.workflow_version, family.state) == (2, ProcessState.PROCESSED)


async def test_each_item_has_a_child_of_its_own() -> None:
    """The results come in their order; so many run at once as the step says."""
    each = replace(
        nested("car", of="rental"),
        request=lambda _parcel, _results, item: {"weight": item},
        for_each=lambda parcel: list(range(1, parcel.weight + 1)),
        at_once=2,
    )
    family = Family(workflow(each, step("pay", "car"), remedy=Remedy.COMPENSATE), rental())
    await family.settle()
    assert family.state is ProcessState.PROCESSED
    assert [family.child(f"car.{item}").order.payload for item in range(3)] == [
        b'{"weight":1}',
        b'{"weight":2}',
        b'{"weight":3}',
    ]
    assert family.agents.calls[-1].request["after"] == ["car"]


async def test_wait_is_nobody_s_while_other_steps_run() -> None:
    """The parent's Scheduler hears of the child's end; what needs it begins at once."""
    family = family_of(step("slow", complete_within=100))
    family.agents.slow("slow")
    running = asyncio.create_task(family.settle())
    await family.agents.until_called("slow")
    family.agents.let_go("slow")
    await running
    assert family.state is ProcessState.PROCESSED


async def test_short_wait_for_a_child_is_sat_out() -> None:
    """Its parent's Scheduler is woken when it ends, also when it is undone; nobody has to look."""
    family = family_of(complete_within=30)
    await family.settle()
    assert (family.state, family.parent.task.run) == (ProcessState.PROCESSED, None)
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert (family.state, family.parent.task.run) == (ProcessState.COMPENSATED, None)


async def test_operator_has_an_undo_go_on_whose_time_was_over() -> None:
    """Its next try has a time of its own, and asks the child anew."""
    family = family_of()
    await family.settle()
    family.agents.behaviours["rent"] = raising(PermanentError("no"))
    await family.store.change(TASK, cancellation())
    await family.settle()
    family.clock.advance(HOUR + 10)
    await family.supervised.sweep()
    assert "is not undone by" in (family.parent.task.last_error or "")
    del family.agents.behaviours["rent"]
    await family.store.change(TASK, replace(resubmission(SECOND), start_by=family.clock.now()))
    await family.settle()
    assert (family.state, family.child().task.process_state) == (ProcessState.COMPENSATED,) * 2
