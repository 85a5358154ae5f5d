"""What operators see and do of one item of a for-each step."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.definition import Registry
from functions.pattern.identity import Parent, StepName, TaskId
from functions.pattern.states import StepState
from tests.fakes.interventions import giving_up
from tests.fakes.tasks import after, claimed, pending, started, told
from tests.fakes.workflows import BIRTH, LINE, TASK, each, nested, step, workflow
from tests.unit.operations.conftest import Desk

FLOW = workflow(each("send", idempotent=False), step("close", "send"))


def _held() -> Desk:
    desk = Desk(registry=Registry((FLOW,), {}))
    begun = told(pending(FLOW, weight=2), claimed(), started("send.1", complete_by=5))
    desk.clock.advance(60)
    desk.holds(told(begun, giving_up(hold=True), now=after(60)))
    return desk


async def test_items_are_shown_one_by_one() -> None:
    """What a step needs is told of the steps as they are defined."""
    shown = (await _held().get(f"/tasks/{TASK}")).json
    assert [(step["name"], step["item"]) for step in shown["steps"]] == [
        ("send.0", 0),
        ("send.1", 1),
        ("close", None),
    ]
    assert shown["needs"] == {"send": [], "close": ["send"]}


async def test_item_in_question_is_answered_for_alone() -> None:
    """By its name; the other items go on as they are."""
    desk = _held()
    answer = await desk.act("steps/send.1/not-done", body={"reason": "there is no such parcel"})
    assert answer.status == 202
    assert {step.state for step in desk.store.record(TASK).steps} == {StepState.NOT_STARTED}


async def test_step_that_is_a_task_leads_to_it_and_back() -> None:
    """From when it has begun."""
    of = workflow(nested("car"), nested("bus", "car"))
    record = told(pending(of), claimed(), started("car", complete_by=3_600))
    parent = Parent(task=TaskId("trip-1"), birth=BIRTH, step=StepName("leg"))
    desk = Desk(registry=Registry((of, LINE), {}))
    desk.holds(replace(record, order=replace(record.order, parent=parent)))
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert shown["children"] == {"car": record.child(StepName("car"))}
    assert shown["parent"] == {"task": "trip-1", "step": "leg"}
