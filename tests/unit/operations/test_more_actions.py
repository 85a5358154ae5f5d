"""What operators do beside resubmission, undo and answers: park, unpark, skip a step, and tell an event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.definition import Registry
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import EpochEnd, Expiry, ProcessState, Remedy, StepState
from tests.fakes.interventions import done, refused
from tests.fakes.tasks import after, claimed, pending, started, told
from tests.fakes.workflows import LINE, TASK, awaiting, step, workflow
from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk, in_error

BOOKING = workflow(
    step("room"), awaiting("approve", "room", on_expiry=Expiry.HOLD), name="booking", remedy=Remedy.HOLD
)
YES: Any = {"body": {"approved": True}, "reason": "by telephone"}


def _waiting() -> TaskRecord:
    return told(pending(BOOKING), claimed(), *done("room"), started("approve", complete_by=3600))


@pytest.fixture
def booked() -> Desk:
    """Make an application with a task that waits for an approval."""
    desk = Desk(registry=Registry((BOOKING,), {}))
    desk.holds(_waiting())
    return desk


async def test_task_is_parked_and_goes_on_when_it_is_unparked(desk: Desk) -> None:
    """Each is on record; the second of either is refused."""
    desk.holds(told(pending(LINE), claimed(), started("pick")))
    answer = await desk.act("park", body={"reason": "the site is closed", "epoch": 1})
    assert (answer.status, answer.json["epoch"], answer.json["state"]) == (202, 2, "Pending")
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert (shown["parked"], shown["parked_by_operator"], shown["last_error"]) == (
        True,
        True,
        "the site is closed",
    )
    assert [line["id"] for line in (await desk.get("/tasks?parked=true")).json["tasks"]] == [TASK]
    assert (await desk.get("/tasks?under_way=true")).json["tasks"] == []
    again = problem(await desk.act("park"), 409)
    assert again["detail"] == "The task is parked already."
    assert (await desk.act("unpark")).json["epoch"] == 3
    assert problem(await desk.act("unpark"), 409)["detail"] == "No operator has parked the task."
    ends = [closed.ended_by for closed in desk.store.record(TASK).history]
    assert ends == [EpochEnd.PARKED, EpochEnd.UNPARKED]


async def test_task_in_error_is_not_parked(desk: Desk) -> None:
    """It rests already."""
    desk.holds(in_error())
    told_why = problem(await desk.act("park"), 409)
    assert told_why["detail"] == "The task has ended, or is in Error: nothing of it runs."


async def test_step_is_skipped_with_a_result(desk: Desk) -> None:
    """Who gave it, and why, is on record; only what failed can be skipped."""
    desk.holds(in_error())
    body = {"result": {"sent": "by hand"}, "reason": "carried there"}
    assert problem(await desk.act("steps/pick/skip", body=body), 409)["detail"] == (
        "This step has not failed: nobody can give its result in its place."
    )
    answer = await desk.act("steps/send/skip", body=body)
    assert (answer.status, answer.json["state"]) == (202, "Processed")
    record = desk.store.record(TASK)
    assert record.step(StepName("send")).result == b'{"sent":"by hand"}'
    assert (record.history[-1].ended_by, record.history[-1].reason) == (
        EpochEnd.RESULT_GIVEN,
        "carried there",
    )


async def test_result_of_an_events_step_is_as_its_event(booked: Desk) -> None:
    """It waited in vain, and its workflow holds it; where its model is not known, it can't be checked."""
    failed = replace(_waiting().step(StepName("approve")), state=StepState.FAILED, error="no event came")
    held = _waiting().with_step(failed)
    held = replace(
        held,
        task=replace(held.task, process_state=ProcessState.ERROR, locked_by=None, finished_at=after(0)),
    )
    booked.holds(held)
    wrong = {"result": {"approved": "no"}, "reason": "late"}
    [fault] = problem(await booked.act("steps/approve/skip", body=wrong), 422)["errors"]
    assert (fault["field"], fault["reason"]) == ("result", "approved: Input should be a valid boolean")
    elsewhere = Desk()
    elsewhere.holds(held)
    right = {"result": {"approved": True}, "reason": "late"}
    assert (
        "not deployed here" in problem(await elsewhere.act("steps/approve/skip", body=right), 409)["detail"]
    )
    assert (await booked.act("steps/approve/skip", body=right)).json["state"] == "Processed"


async def test_event_is_told_by_an_operator_with_the_reason(booked: Desk) -> None:
    """As its callers tell it, also the answers: the same again changes nothing, another is refused."""
    assert (await booked.act("events/approve", body=YES | {"epoch": 1})).status == 202
    recorded = booked.store.record(TASK).step(StepName("approve"))
    assert (recorded.state, recorded.told_by, recorded.told_why) == (
        StepState.COMPLETED,
        "operator",
        "by telephone",
    )
    assert (await booked.act("events/approve", body=YES)).status == 202
    other = await booked.act("events/approve", body=YES | {"body": {"approved": False}})
    assert problem(other, 409)["detail"] == "Another event was told for this step before."
    shown = (await booked.get(f"/tasks/{TASK}")).json["steps"][1]
    assert (shown["told_by"], shown["told_why"]) == ("operator", "by telephone")


async def test_event_is_checked_by_its_model(booked: Desk) -> None:
    """Each fault is named by its field; a step that is not there, or waits for none, is 404."""
    wrong = await booked.act("events/approve", body=YES | {"body": {"by": "me"}})
    assert sorted(wrong_fields(wrong)) == ["approved", "by"]
    for name in ("room", "other"):
        problem(await booked.act(f"events/{name}", body=YES), 404)


async def test_event_takes_its_steps_role_of_an_operator_too() -> None:
    """An operator sees the task, and who is to be asked."""
    of_own = workflow(awaiting("approve", role="Approver"), name="booking")
    desk = Desk(registry=Registry((of_own,), {}))
    desk.holds(told(pending(of_own), claimed(), started("approve", complete_by=3600)))
    answer = await desk.act("events/approve", body=YES)
    assert "lacks the role Approver" in problem(answer, 403)["detail"]
    assert desk.store.record(TASK).step(StepName("approve")).told_by is None
    skipped = await desk.act("steps/approve/skip", body={"result": {"approved": True}, "reason": "late"})
    assert "lacks the role Approver" in problem(skipped, 403)["detail"]


async def test_prospects_tell_what_can_be_done(booked: Desk) -> None:
    """Which steps can be skipped or told their events, and what follows."""
    shown = (await booked.get(f"/tasks/{TASK}")).json["prospects"]
    assert (shown["park"], shown["unpark"], shown["events"]) == (True, None, ["approve"])
    await booked.act("park")
    shown = (await booked.get(f"/tasks/{TASK}")).json["prospects"]
    assert (shown["park"], shown["unpark"]["runs"]) == (False, ["approve"])
    desk = Desk()
    desk.holds(told(pending(LINE), claimed(), *refused("pick")))
    shown = (await desk.get(f"/tasks/{TASK}")).json["prospects"]
    follows = {"runs": ["send"], "undoes": [], "waits_until": None}
    assert (shown["skips"], shown["events"]) == ([{"step": "pick", "follows": follows}], [])
