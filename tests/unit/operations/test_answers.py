"""An operator says what became of a step that must not be repeated; the task goes on by that, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.definition import Registry
from functions.pattern.identity import StepName
from functions.pattern.states import EpochEnd, ProcessState, StepState
from tests.fakes.interventions import giving_up
from tests.fakes.tasks import SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk, in_error

PAY = StepName("pay")


def _mail(_: object, results: Mapping[StepName, Any]) -> Mapping[str, Any]:
    return {"about": results[PAY]["receipt"]}


PAYING = workflow(step("pay", idempotent=False), replace(step("mail", "pay"), request=_mail), name="paying")
DONE = {"result": {"receipt": "p-1"}, "reason": "it is on the account"}


@pytest.fixture
def held() -> Desk:
    """Make an application with a task that is held, as nobody knows whether its payment was made."""
    desk = Desk(registry=Registry((PAYING,), {}))
    desk.clock.advance(60)
    begun = told(pending(PAYING), claimed(), started("pay", complete_by=5))
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
    assert "an outcome is unknown" in refused.json["detail"]


@pytest.mark.parametrize("step", ["mail", "unknown"])
async def test_what_is_not_in_question_is_not_answered(held: Desk, step: str) -> None:
    """409, also for a task whose step was refused."""
    problem(await held.act(f"steps/{step}/done", body=DONE), 409)
    problem(await held.act(f"steps/{step}/not-done"), 409)
    held.holds(in_error())
    problem(await held.act("steps/send/not-done"), 409)


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
    "result", [{"text": "x" * 25_000}, {"other": 1}, "p-1"], ids=["too large", "of no use", "no object"]
)
async def test_result_is_checked_before_it_counts(held: Desk, result: object) -> None:
    """It could not be taken back: of its size, and that what follows can be made of it."""
    assert wrong_fields(await held.act("steps/pay/done", body=DONE | {"result": result})) == ["result"]
    assert held.store.record(TASK).task.process_state is ProcessState.ERROR
