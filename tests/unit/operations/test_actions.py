"""Operators' actions on a task are checked, done once, and recorded with operator and reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from functions.agents.rest import read_answer
from functions.pattern.definition import Json, Registry, Workflow
from functions.pattern.identity import Parent, StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, EpochEnd, Expiry, ProcessState, Remedy, StepState
from tests.fakes.agents import ScriptedAgent
from tests.fakes.interventions import done, giving_up, refused, resubmission
from tests.fakes.tasks import SECOND, after, claimed, failed, pending, started, told, unrecorded
from tests.fakes.workflows import BIRTH, LINE, TASK, awaiting, each, nested, step, trip, workflow
from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk, in_error, processed


async def test_resubmitted_task_goes_on_at_the_failed_step(desk: Desk) -> None:
    """In the next epoch, with a new count of failures; what was completed stays."""
    desk.holds(in_error())
    answer = await desk.act("resubmit")
    assert answer.status == 202
    assert answer.json == {"id": TASK, "epoch": 2, "state": "Pending", "direction": "do"}
    record = desk.store.record(TASK)
    assert [step.state for step in record.steps] == [StepState.COMPLETED, StepState.NOT_STARTED]
    assert (record.task.failure_count, record.task.due_at) == (0, after(30))


async def test_undo_turns_the_task_back(desk: Desk) -> None:
    """These steps need no undo, so it is `Compensated` at once."""
    desk.holds(in_error())
    answer = await desk.act("undo")
    assert (answer.status, answer.json["epoch"], answer.json["state"]) == (202, 2, "Compensated")
    assert desk.store.record(TASK).task.direction is Direction.UNDO


@pytest.mark.parametrize(
    ("action", "end"), [("resubmit", EpochEnd.RESUBMITTED), ("undo", EpochEnd.UNDO_REQUESTED)]
)
async def test_action_is_on_record(desk: Desk, action: str, end: EpochEnd) -> None:
    """Who did it, and why, stands on the epoch that it ended."""
    desk.holds(in_error())
    await desk.act(action, body={"reason": "  cleared with the bank "})
    [closed] = desk.store.record(TASK).history
    assert (closed.ended_by, closed.who, closed.reason) == (end, "operator", "cleared with the bank")
    assert closed.process_state is ProcessState.ERROR


async def test_action_is_recorded_outside_the_tables_too(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """Once it is done; what was refused was not."""
    caplog.set_level(logging.INFO, "functions.telemetry.fields")
    desk.holds(in_error())
    await desk.act("resubmit")
    assert (await desk.act("resubmit")).status == 409
    assert caplog.messages == [f"operator action: resubmit tasks/{TASK} by operator"]


@pytest.mark.parametrize("others", [("resubmit", "resubmit"), ("resubmit", "undo"), ("undo", "undo")])
async def test_of_two_operators_one_wins(desk: Desk, others: tuple[str, str]) -> None:
    """The other gets 409, and the task has moved on by one epoch only."""
    desk.holds(in_error())
    answers = await asyncio.gather(*(desk.act(action) for action in others))
    assert sorted(answer.status for answer in answers) == [202, 409]
    problem(max(answers, key=lambda answer: answer.status), 409)
    assert len(desk.store.record(TASK).history) == 1


@pytest.mark.parametrize("action", ["resubmit", "undo"])
async def test_task_that_is_not_in_error_is_left_alone(desk: Desk, action: str) -> None:
    """Nobody asked for an operator."""
    desk.holds(processed("d-1"), pending(LINE))
    for task in ("d-1", TASK):
        answer = await desk.act(action, task)
        problem(answer, 409)
        assert answer.json["detail"] == "The task is not in Error, and takes this only there."
    assert desk.store.writes == 2


async def test_refusal_names_the_case(desk: Desk) -> None:
    """An outcome is awaited, or a step is known to be done."""
    workflow = trip(remedy=Remedy.HOLD, hotel_idempotent=False)
    refused_beside = told(pending(workflow), claimed(), started("flight"), started("hotel"), failed("flight"))
    without_result = told(
        pending(workflow), claimed(), *done("flight"), started("hotel"), unrecorded("hotel")
    )
    for record, reason in (
        (refused_beside, "A step that must not be repeated is running: its outcome comes first."),
        (without_result, "A step is known to be done: give its result, or have the task undone."),
    ):
        desk.holds(record)
        answer = await desk.act("resubmit")
        problem(answer, 409)
        assert answer.json["detail"] == reason


async def test_operator_cancels_in_any_state(desk: Desk) -> None:
    """These steps need no undo, so they are `Compensated` at once; then there is nothing left to cancel."""
    for number, record in enumerate([in_error(), processed("d-1"), pending(LINE, TaskId("d-2"))]):
        desk.holds(record)
        task = record.order.task
        answer = await desk.act("cancel", task, body={"reason": "the customer called"})
        assert (answer.status, answer.json["state"]) == (202, "Compensated"), number
        [closed] = desk.store.record(task).history
        assert (closed.ended_by, closed.who) == (EpochEnd.CANCELLED, "operator")
        assert closed.reason == "the customer called"
        answer = await desk.act("cancel", task)
        problem(answer, 409)
        assert answer.json["detail"] == "The task is Compensated already: nothing is left to cancel."


@pytest.mark.parametrize("action", ["resubmit", "undo", "cancel"])
@pytest.mark.parametrize("epoch", [1, 3])
async def test_action_on_a_task_as_it_was_seen_in_another_epoch_is_refused(
    desk: Desk, action: str, epoch: int
) -> None:
    """409 says in which it is; in that one, the same action is taken."""
    desk.holds(told(in_error(), resubmission(), claimed(SECOND), *refused("send", SECOND)))
    answer = await desk.act(action, body={"reason": "why", "epoch": epoch})
    problem(answer, 409)
    assert answer.json["detail"] == f"The task is in epoch 2 now, and not in epoch {epoch}."
    assert (await desk.act(action, body={"reason": "why", "epoch": 2})).status == 202


@pytest.mark.parametrize("action", ["resubmit", "undo", "cancel"])
async def test_unknown_task_is_not_found(desk: Desk, action: str) -> None:
    """404."""
    problem(await desk.act(action), 404)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "reason"),
        ({"reason": " "}, "reason"),
        ({"reason": "x" * 501}, "reason"),
        ({"reason": 5}, "reason"),
        ({"reason": "why", "epoch": 0}, "epoch"),
        ({"reason": "why", "epoch": "1"}, "epoch"),
        ({"reason": "why", "who": "somebody else"}, "who"),
    ],
)
async def test_action_needs_a_reason_and_nothing_else(desk: Desk, body: Any, field: str) -> None:
    """Nobody can name another as the one who acts."""
    desk.holds(in_error())
    assert wrong_fields(await desk.act("resubmit", body=body)) == [field]
    assert desk.store.writes == 1


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


PAY = StepName("pay")


def _mail(_: object, results: Mapping[StepName, Any]) -> Mapping[str, Any]:
    return {"about": results[PAY]["receipt"]}


PAYING = workflow(step("pay", idempotent=False), replace(step("mail", "pay"), request=_mail), name="paying")
DONE = {"result": {"receipt": "p-1"}, "reason": "it is on the account"}


class Receipt(BaseModel):
    """What a till gives."""

    receipt: str


class Till(ScriptedAgent):
    """Reads its answers, and keeps what it knows of them."""

    def read(self, answer: Json) -> Json:
        """Give the receipt."""
        return read_answer(Receipt, answer).model_dump()


@pytest.fixture
def held() -> Desk:
    """Make an application with a task that is held, as nobody knows whether its payment was made."""
    return _in_question(PAYING, agents={"pay": Till()})


def _in_question(of: Workflow, *, deployed: tuple[Workflow, ...] | None = None, **options: Any) -> Desk:
    """Hold a task of `of`, whose first step has an unknown outcome; `of` is deployed unless others are."""
    desk = Desk(registry=Registry((of,) if deployed is None else deployed, {}), **options)
    desk.clock.advance(60)
    begun = told(pending(of), claimed(), started("pay", complete_by=5))
    desk.holds(told(begun, giving_up(hold=True), now=desk.clock.now()))
    return desk


async def test_step_that_was_done_is_completed(held: Desk) -> None:
    """With its result; who said so, and why, is in the history."""
    answer = await held.act("steps/pay/done", body=DONE)
    assert (answer.status, answer.json["state"], answer.json["epoch"]) == (202, "Pending", 2)
    record = held.store.record(TASK)
    assert (record.step(PAY).state, record.step(PAY).result) == (StepState.COMPLETED, b'{"receipt":"p-1"}')
    [closed] = record.history
    assert (closed.ended_by, closed.who, closed.reason) == (
        EpochEnd.FOUND_DONE,
        "operator",
        "it is on the account",
    )


async def test_step_that_was_not_done_runs(held: Desk) -> None:
    """It is the first time in effect."""
    assert (await held.act("steps/pay/not-done")).status == 202
    record = held.store.record(TASK)
    assert record.step(PAY).state is StepState.NOT_STARTED
    assert record.history[0].ended_by is EpochEnd.FOUND_NOT_DONE
    assert (record.task.process_state, record.task.due_at) == (ProcessState.PENDING, after(90))


async def test_resubmission_is_refused_with_the_reason(held: Desk) -> None:
    """An answer comes first."""
    refused = await held.act("resubmit")
    problem(refused, 409)
    assert refused.json["detail"] == "The outcome of a step is unknown: first say whether it was done."


async def test_what_is_not_in_question_is_not_answered(held: Desk) -> None:
    """409, also for a task whose step was refused."""
    answers = [await held.act("steps/mail/done", body=DONE), await held.act("steps/mail/not-done")]
    held.holds(in_error())
    for answer in (*answers, await held.act("steps/send/not-done")):
        problem(answer, 409)
        assert answer.json["detail"] == "Whether this step was done is not in question."


async def test_answer_for_a_step_that_the_task_does_not_have_names_those_that_it_has(held: Desk) -> None:
    """404: it is misspelt."""
    for answer in (await held.act("steps/pya/done", body=DONE), await held.act("steps/pya/not-done")):
        problem(answer, 404)
        assert answer.json["detail"] == "There is no step 'pya' in this task; its steps are pay, mail."


async def test_answer_for_an_epoch_that_is_over_is_refused(held: Desk) -> None:
    """An old tab can't answer for a later start; it is told where the task is."""
    assert (await held.act("steps/pay/not-done", body={"reason": "nothing there", "epoch": 1})).status == 202
    begun = told(held.store.record(TASK), claimed(SECOND), started("pay", SECOND, complete_by=65))
    held.clock.advance(60)
    held.holds(told(begun, giving_up(SECOND, hold=True), now=held.clock.now()))
    for kind, body in (("done", DONE), ("not-done", {"reason": "nothing there"})):
        refused = await held.act(f"steps/pay/{kind}", body=body | {"epoch": 1})
        problem(refused, 409)
        assert refused.json["detail"] == "The task is in epoch 2 now, and not in epoch 1."
    assert (await held.act("steps/pay/done", body=DONE | {"epoch": 2})).status == 202


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"receipt": "x" * 25_000}, "its result has 25014 bytes; at most 24576 can be sent"),
        ({"receipt": 1}, "the answer does not fit (receipt: input should be a valid string)"),
        ({}, "the answer does not fit (receipt: field required)"),
        ("p-1", "Input should be a valid dictionary"),
    ],
    ids=["too large", "other type", "incomplete", "no object"],
)
async def test_result_is_checked_as_the_agents_would_be(held: Desk, result: object, reason: str) -> None:
    """Its size, its JSON, and what the Agent itself asks of its service's answers."""
    refused = await held.act("steps/pay/done", body=DONE | {"result": result})
    assert wrong_fields(refused) == ["result"]
    assert refused.json["errors"][0]["reason"].startswith(reason)
    assert held.store.record(TASK).task.process_state is ProcessState.ERROR


async def test_result_is_recorded_as_the_agent_would_give_it(held: Desk) -> None:
    """Without what it would have left out."""
    more = {"receipt": "p-1", "page": "<html>"}
    assert (await held.act("steps/pay/done", body=DONE | {"result": more})).status == 202
    assert held.store.record(TASK).step(PAY).result == b'{"receipt":"p-1"}'


async def test_result_of_no_use_for_what_follows_is_refused() -> None:
    """It could not be taken back; also where the Agent, or its form, is not known here."""
    elsewhere = _in_question(PAYING)
    result = {"result": {"other": 1}}
    assert wrong_fields(await elsewhere.act("steps/pay/done", body=DONE | result)) == ["result"]
    assert elsewhere.store.record(TASK).task.process_state is ProcessState.ERROR
    assert (await elsewhere.act("steps/pay/done", body=DONE)).status == 202


async def test_defect_of_a_step_that_gets_no_such_result_refuses_none() -> None:
    """What is known is taken; and whatever is given, that step fails."""
    paying = workflow(step("pay", idempotent=False), replace(step("label"), request=_mail), name="paying")
    desk = _in_question(paying)
    assert (await desk.act("steps/pay/done", body=DONE)).status == 202
    assert desk.store.record(TASK).step(PAY).state is StepState.COMPLETED


@pytest.mark.parametrize(
    ("deployed", "reason"),
    [
        ((), "version 1 of 'paying' is not deployed here"),
        ((replace(PAYING, version=2),), "version 1 of 'paying' is not deployed here"),
        (
            (replace(PAYING, steps=PAYING.steps[:1]),),
            "step 'mail' of version 1 of 'paying' is not deployed here",
        ),
        (
            (replace(PAYING, payload=Receipt),),
            "the payload does not fit version 1 of 'paying' as it is deployed here: receipt: Field required",
        ),
    ],
    ids=["nothing", "newer", "shorter", "stricter"],
)
async def test_result_that_cannot_be_checked_here_is_not_taken(
    deployed: tuple[Workflow, ...], reason: str
) -> None:
    """What follows might fail on it, and it could not be taken back; that it was not done can be said."""
    elsewhere = _in_question(PAYING, deployed=deployed, agents={"pay": Till()})
    refused = await elsewhere.act("steps/pay/done", body=DONE)
    problem(refused, 409)
    assert refused.json["detail"] == f"{reason}: answer where it is."
    assert elsewhere.store.record(TASK).task.process_state is ProcessState.ERROR
    assert (await elsewhere.act("steps/pay/not-done")).status == 202


async def test_last_result_is_taken_only_where_its_version_is() -> None:
    """The answer to the caller is made of it."""
    once = workflow(step("pay", idempotent=False), name="paying")
    for deployed, status in (((), 409), ((once,), 202)):
        desk = _in_question(once, deployed=deployed)
        assert (await desk.act("steps/pay/done", body=DONE)).status == status


async def test_last_result_must_do_for_the_answer() -> None:
    """The task ends with it, and its answer is not made again."""
    paying = replace(workflow(step("pay", idempotent=False), name="paying"), answer=_mail)
    desk = _in_question(paying)
    refused = await desk.act("steps/pay/done", body=DONE | {"result": {"other": 1}})
    assert wrong_fields(refused) == ["result"]
    assert refused.json["errors"][0]["reason"] == (
        "what follows can't be made of it: its answer can't be given: KeyError: 'receipt'"
    )
    assert desk.store.record(TASK).task.process_state is ProcessState.ERROR
    assert (await desk.act("steps/pay/done", body=DONE)).json["state"] == "Processed"


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
