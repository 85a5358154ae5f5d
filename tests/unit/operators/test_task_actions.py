"""Operators' actions on a task: checked, recorded once, and recorded with operator and reason."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from unittest.mock import AsyncMock

import pytest

from functions.core.definition.step_definition import EventStep, Results, Step
from functions.core.definition.workflow_definition import Workflow
from functions.core.derive import ProcessState, derive
from functions.core.record import EpochEnd, OperationState, StepRecord
from functions.core.task_events import OutcomeKind
from functions.http.access import Caller, Guard, Role, identify_as
from tests.fakes.guards import WIDE
from tests.unit.api.scene import problem, wrong_fields
from tests.unit.operators.conftest import (
    BOOKING,
    LINE,
    PAY,
    TASK,
    TRIP,
    Approval,
    Desk,
    Parcel,
    mail,
)

NO_OPERATOR = "No operator has suspended the task."


async def test_resubmitted_task_continues_at_the_failed_step(desk: Desk) -> None:
    """It is in the next epoch; the completed step stays completed."""
    await desk.in_error()
    answer = await desk.act("resubmit")
    line = {name: answer.json[name] for name in ("id", "epoch", "state", "direction")}
    assert (answer.status, line) == (202, {"id": TASK, "epoch": 2, "state": "Pending", "direction": "do"})
    record = await desk.record()
    assert [record.do(name).state for name in ("pick", "send")] == [
        OperationState.DONE,
        OperationState.NOT_STARTED,
    ]


@pytest.mark.parametrize(
    ("action", "end"),
    [
        ("resubmit", EpochEnd.RESUBMITTED),
        ("undo", EpochEnd.UNDO_REQUESTED),
        ("cancel", EpochEnd.CANCELLED),
        ("steps/send/rebuild", EpochEnd.RESUBMITTED),
    ],
)
async def test_action_is_on_record(
    desk: Desk, action: str, end: EpochEnd, caplog: pytest.LogCaptureFixture
) -> None:
    """The closed epoch has the operator and the reason. An accepted action is logged without its reason."""
    caplog.set_level(logging.INFO, "functions.telemetry.instruments")
    await desk.in_error()
    assert (await desk.act(action, reason="  cleared with the bank ")).status == 202
    [closed] = await desk.epochs()
    assert (closed.end, closed.who, closed.reason) == (end, "operator", "cleared with the bank")
    assert (await desk.act("resume")).status == 409
    step, name = ("/steps/send", "rebuild") if "/" in action else ("", action)
    assert caplog.messages == [f"operator action: {name} tasks/{TASK}{step} by operator"]


@pytest.mark.parametrize("others", [("resubmit", "resubmit"), ("resubmit", "undo"), ("undo", "undo")])
async def test_of_two_operators_one_wins(desk: Desk, others: tuple[str, str]) -> None:
    """The other gets 409, and one epoch is closed."""
    await desk.in_error()
    answers = await asyncio.gather(*(desk.act(action) for action in others))
    assert sorted(answer.status for answer in answers) == [202, 409]
    assert len(await desk.epochs()) == 1


@pytest.mark.parametrize("action", ["resubmit", "undo", "steps/send/rebuild", "steps/send/not-done"])
async def test_task_that_is_not_in_error_is_left_alone(desk: Desk, action: str) -> None:
    """It is processed, or under way."""
    await desk.processed("d-1")
    await desk.submit()
    for task in ("d-1", TASK):
        document = problem(await desk.act(action, task), 409)
        assert document["detail"] == "The task is not in Error. This action applies only there."


async def test_operator_cancels_in_any_state(desk: Desk) -> None:
    """The steps of `LINE` have no undo, so the task is `Compensated` at once, and only once."""
    await desk.in_error("e-1")
    await desk.processed("d-1")
    await desk.submit("p-1")
    for task in ("e-1", "d-1", "p-1"):
        answer = await desk.act("cancel", task)
        assert (answer.status, answer.json["state"]) == (202, "Compensated")
        document = problem(await desk.act("cancel", task), 409)
        assert "nothing left to cancel" in document["detail"]


@pytest.mark.parametrize("is_in_error", [False, True])
async def test_task_that_ends_in_this_moment_is_not_cancelled(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, is_in_error: bool
) -> None:
    """The operator saw it under way, or in `Error`: a processed task would be undone."""
    if is_in_error:
        await desk.in_error()
        seen = await desk.record()
        desk.clock.advance(2)
        await desk.act("resubmit")
        await desk.run()
    else:
        await desk.submit()
        await desk.run()
        seen = await desk.end("pick")
    await desk.end("send")
    with monkeypatch.context() as outdated:
        outdated.setattr(desk.storage, "load", AsyncMock(return_value=seen))
        assert "has ended meanwhile" in problem(await desk.act("cancel"), 409)["detail"]
    assert derive(await desk.record()).state is ProcessState.PROCESSED


@pytest.mark.parametrize("action", ["resubmit", "undo", "cancel"])
async def test_action_on_another_epoch_is_rejected(desk: Desk, action: str) -> None:
    """409 names the current epoch, in which the same action is accepted."""
    await desk.in_error()
    await desk.act("resubmit")
    await desk.run()
    await desk.end("send", error="again")
    for epoch in (1, 3):
        document = problem(await desk.act(action, epoch=epoch), 409)
        assert document["detail"] == f"The task is in epoch 2 now, and not in epoch {epoch}."
    assert (await desk.act(action, epoch=2)).status == 202


@pytest.mark.parametrize("action", ["resubmit", "steps/send/leave", "events/approve"])
async def test_unknown_task_is_not_found(desk: Desk, action: str) -> None:
    """404, and 422 for a name that no task has."""
    content: dict[str, Any] = {"body": {}} if action.startswith("events") else {}
    problem(await desk.act(action, **content), 404)
    problem(await desk.act(action, "a%7Cb", **content), 422)


@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("resubmit", {"reason": None}, "reason"),
        ("resubmit", {"reason": " "}, "reason"),
        ("resubmit", {"reason": "x" * 501}, "reason"),
        ("resubmit", {"epoch": 0}, "epoch"),
        ("resubmit", {"epoch": "1"}, "epoch"),
        ("resubmit", {"who": "another"}, "who"),
        ("resubmit", {"result": {}}, "result"),
        ("leave", {}, "step"),
        ("steps/send/cancel", {}, "step"),
        ("steps/send/done", {}, "result"),
        ("events/send", {"result": {}}, "result"),
        ("resubmitt", {}, "action"),
    ],
)
async def test_fields_that_do_not_belong_to_an_action_are_named(
    desk: Desk, action: str, body: Any, field: str
) -> None:
    """Nothing is recorded."""
    await desk.in_error()
    before = await desk.record()
    assert field in wrong_fields(await desk.act(action, **body))
    assert await desk.record() == before


# Suspension


async def test_suspended_task_is_resumed_by_an_operator(desk: Desk) -> None:
    """The call under way is shown. A second suspension and a second resumption are rejected."""
    await desk.submit()
    await desk.run()
    answer = await desk.act("suspend", reason="the site is closed", epoch=1)
    assert (answer.status, answer.json["suspension"]) == (202, "suspending: 1 call under way")
    seen = (answer.json["reason"], answer.json["suspended_by_operator"])
    assert seen == ("operator: the site is closed", True)
    await desk.end("pick")
    assert (await desk.get(f"/tasks/{TASK}")).json["suspension"] == "suspended"
    assert "already" in problem(await desk.act("suspend"), 409)["detail"]
    assert (await desk.act("resume")).json["suspension"] is None
    assert problem(await desk.act("resume"), 409)["detail"] == NO_OPERATOR
    await desk.in_error("e-1")
    assert "is in Error" in problem(await desk.act("suspend", "e-1"), 409)["detail"]


# Verdicts and results


DONE: dict[str, Any] = {"result": {"receipt": "p-1"}, "reason": "seen at the bank"}


async def test_step_that_was_done_is_completed(desk: Desk) -> None:
    """The verdict is on record with its operator; the task continues, which no resubmission achieves."""
    await desk.in_question()
    assert "Answer that" in problem(await desk.act("resubmit"), 409)["detail"]
    answer = await desk.act("steps/pay/done", **DONE)
    assert (answer.status, answer.json["state"], answer.json["epoch"]) == (202, "Pending", 2)
    do = (await desk.record()).do("pay")
    assert (do.state, do.result) == (OperationState.DONE, '{"receipt":"p-1"}')
    [closed] = await desk.epochs()
    assert (closed.end, closed.who, closed.reason) == (EpochEnd.ANSWERED, "operator", "seen at the bank")


@pytest.mark.parametrize("action", ["done", "skip"])
async def test_failed_step_gets_its_result(desk: Desk, action: str) -> None:
    """The task continues after it; a completed step gets none."""
    await desk.in_error()
    given: dict[str, Any] = {"result": {"sent": "by hand"}}
    assert "has not failed" in problem(await desk.act(f"steps/pick/{action}", **given), 409)["detail"]
    answer = await desk.act(f"steps/send/{action}", **given)
    assert (answer.status, answer.json["state"]) == (202, "Processed")
    assert (await desk.record()).do("send").result == '{"sent":"by hand"}'


async def test_step_without_a_question_takes_no_verdict(desk: Desk) -> None:
    """409; an unknown step is 404 and names the steps."""
    await desk.in_question()
    for action, body in (("mail/done", DONE), ("mail/not-done", {}), ("pay/undone", {}), ("pay/leave", {})):
        assert problem(await desk.act(f"steps/{action}", **body), 409)["detail"].startswith("The ")
    document = problem(await desk.act("steps/pya/not-done"), 404)
    assert document["detail"] == "The task has no step pya. Its steps are pay, mail."


async def test_answer_of_an_old_page_is_rejected(desk: Desk) -> None:
    """It could answer a later question."""
    await desk.in_question()
    await desk.act("steps/pay/not-done", epoch=1)
    await desk.run()
    desk.clock.advance(60)
    await desk.end("pay", kind=OutcomeKind.UNKNOWN)
    for action, body in (("done", DONE), ("not-done", {})):
        problem(await desk.act(f"steps/pay/{action}", **body, epoch=1), 409)
    assert (await desk.act("steps/pay/done", **DONE, epoch=2)).status == 202


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"receipt": "x-" + "x" * 30_000}, "the result has"),
        ({"receipt": 1}, "Receipt rejects it: receipt: Input should be a valid string"),
        ({}, "Receipt rejects it: receipt: Field required"),
        ({"receipt": "p"}, "step mail cannot start: IndexError"),
    ],
)
async def test_result_is_checked(desk: Desk, result: object, reason: str) -> None:
    """The step's model checks it, and the following requests can be made of it."""
    await desk.in_question()
    answer = await desk.act("steps/pay/done", result=result)
    assert wrong_fields(answer) == ["result"]
    assert answer.json["errors"][0]["reason"].startswith(reason)
    assert derive(await desk.record()).state is ProcessState.ERROR


def _broken(_parcel: Parcel, _results: Results) -> dict[str, object]:
    raise ValueError("never")


async def test_defect_of_a_step_without_the_result_rejects_nothing() -> None:
    """That step fails with any result."""
    flow = Workflow("paying", payload=Parcel, steps=[PAY, Step("label", request=_broken)])
    desk = Desk(flow)
    await desk.submit(TASK, flow)
    await desk.run()
    await desk.end("pay", kind=OutcomeKind.UNKNOWN)
    assert (await desk.act("steps/pay/done", **DONE)).status == 202


async def test_result_must_be_usable_for_the_output() -> None:
    """The task ends with it, and its output is not made again."""
    flow = Workflow("paying", payload=Parcel, steps=[PAY], output=mail)
    desk = Desk(flow)
    await desk.in_question(flow)
    answer = await desk.act("steps/pay/done", result={"receipt": "p"})
    assert wrong_fields(answer) == ["result"]
    assert answer.json["errors"][0]["reason"].startswith("no output: IndexError")
    assert (await desk.act("steps/pay/done", **DONE)).json["state"] == "Processed"
    assert (await desk.record()).output == '{"about":"1"}'


@pytest.mark.parametrize(
    "deployed", [(LINE,), (Workflow("paying", payload=Parcel, steps=[PAY]),)], ids=["nothing", "other steps"]
)
async def test_result_that_cannot_be_checked_is_rejected(deployed: tuple[Workflow[Any], ...]) -> None:
    """409; "not done" needs no check."""
    desk = Desk()
    await desk.in_question()
    other = desk.redeployed(*deployed)
    document = problem(await other.act("steps/pay/done", **DONE), 409)
    assert document["detail"].endswith("Answer where the version is deployed.")
    assert (await other.act("steps/pay/not-done")).status == 202


async def _refused_undo(desk: Desk) -> StepRecord:
    await desk.submit(TASK, TRIP)
    await desk.run()
    await desk.end("flight")
    await desk.end("hotel", error="full")
    await desk.act("undo")
    await desk.run()
    return (await desk.end("flight", error="too late")).step("flight")


@pytest.mark.parametrize(
    ("action", "state"), [("undone", OperationState.DONE), ("leave", OperationState.SKIPPED)]
)
async def test_refused_undo_is_answered(desk: Desk, action: str, state: OperationState) -> None:
    """The note has the operator and the reason, and the task ends."""
    assert (await _refused_undo(desk)).undo.state is OperationState.REFUSED
    answer = await desk.act(f"steps/flight/{action}", reason="called them")
    assert (answer.status, answer.json["state"]) == (202, "Compensated")
    step = (await desk.record()).step("flight")
    assert step.undo.state is state
    assert (step.note or "").endswith(": operator: called them")


async def test_rebuilt_request_has_another_key(desk: Desk) -> None:
    """Only a refused request is rebuilt."""
    await desk.in_error()
    assert "was not refused" in problem(await desk.act("steps/pick/rebuild"), 409)["detail"]
    assert (await desk.act("steps/send/rebuild")).status == 202
    assert len((await desk.record()).step("send").earlier_dos) == 1


# Events


YES: dict[str, Any] = {"body": {"approved": True}, "reason": "by telephone"}


async def _booked(**guard: Any) -> Desk:
    desk = Desk(**guard)
    await desk.submit(TASK, BOOKING)
    await desk.run()
    await desk.end("room")
    return desk


def _caller(*roles: str) -> Guard:
    caller = Caller("anna", frozenset({Role.OPERATOR, *roles}))
    return Guard(identify_as(caller), WIDE)


async def test_event_is_sent_in_the_place_of_its_sender() -> None:
    """The same event again changes nothing, another one is rejected. Operator and reason are on record."""
    desk = await _booked(guard=_caller("Approver"))
    for _ in range(2):
        assert (await desk.act("events/approve", **YES, epoch=1)).status == 202
    step = (await desk.record()).step("approve")
    assert (step.event, step.event_by) == ('{"approved":true}', "anna: by telephone")
    document = problem(await desk.act("events/approve", body={"approved": False}), 409)
    assert document["detail"].startswith("Another event is recorded")


async def test_event_is_checked_by_its_model() -> None:
    """The fields are named; a step that waits for no event is 404."""
    desk = await _booked(guard=_caller("Approver"))
    answer = await desk.act("events/approve", body={"approved": "perhaps"})
    assert wrong_fields(answer) == ["body"]
    assert "approved: Input should be a valid boolean" in answer.json["errors"][0]["reason"]
    for step in ("room", "other"):
        problem(await desk.act(f"events/{step}", **YES), 404)


async def test_event_needs_the_role_of_its_step() -> None:
    """So does its result by hand."""
    desk = await _booked(guard=_caller())
    for path, body in (("events/approve", YES), ("steps/approve/done", {"result": {"approved": True}})):
        assert "lacks the role Approver" in problem(await desk.act(path, **body), 403)["detail"]
    assert (await desk.record()).step("approve").event is None


async def test_event_of_a_submitter_is_sent_by_the_submitter_only() -> None:
    """An operator with the role did not submit the order."""
    own = EventStep("approve", event=Approval, complete_within=60, role="Submitter")
    flow = Workflow("booking", payload=Parcel, steps=[own])
    desk = Desk(flow, guard=_caller("Submitter"))
    await desk.submit(TASK, flow)
    await desk.submit("own", flow, submitter="anna")
    problem(await desk.act("events/approve", **YES), 403)
    assert (await desk.act("events/approve", "own", **YES)).status == 202


async def test_event_for_a_version_that_is_not_deployed_is_sent_later() -> None:
    """503 with the time to wait."""
    desk = await _booked(guard=_caller("Approver"))
    other = desk.redeployed(LINE, guard=_caller("Approver"))
    answer = await other.act("events/approve", **YES)
    problem(answer, 503)
    assert answer.headers["retry-after"] == "5"
