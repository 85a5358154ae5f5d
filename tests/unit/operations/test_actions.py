"""What operators do: only to tasks in `Error`, once, and on record."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from functions.pattern.identity import TaskId
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState
from tests.fakes.interventions import done, refused, resubmission
from tests.fakes.tasks import SECOND, after, claimed, failed, pending, started, told, unrecorded
from tests.fakes.workflows import LINE, TASK, trip
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


async def test_large_body_is_not_read(desk: Desk) -> None:
    """A reason is short."""
    problem(await desk.act("undo", body={"reason": "x" * 40_000}), 413)
