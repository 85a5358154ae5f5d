"""An operator says what became of a step that must not be repeated; the task goes on by that, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from functions.agents.rest import read_answer
from functions.pattern.definition import Json, Registry, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import EpochEnd, ProcessState, StepState
from tests.fakes.agents import ScriptedAgent
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
    desk = Desk(registry=Registry((PAYING,), {}), agents={"pay": Till()})
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


async def test_result_of_no_use_for_what_follows_is_refused(held: Desk) -> None:
    """It could not be taken back; also where the Agent, or its form, is not known here."""
    elsewhere = Desk(registry=Registry((PAYING,), {}))
    elsewhere.clock.advance(60)
    elsewhere.holds(held.store.record(TASK))
    result = {"result": {"other": 1}}
    assert wrong_fields(await elsewhere.act("steps/pay/done", body=DONE | result)) == ["result"]
    assert elsewhere.store.record(TASK).task.process_state is ProcessState.ERROR
    assert (await elsewhere.act("steps/pay/done", body=DONE)).status == 202


async def test_defect_of_a_step_that_gets_no_such_result_refuses_none() -> None:
    """What is known is taken; and whatever is given, that step fails."""
    paying = workflow(step("pay", idempotent=False), replace(step("label"), request=_mail), name="paying")
    desk = Desk(registry=Registry((paying,), {}))
    desk.clock.advance(60)
    begun = told(pending(paying), claimed(), started("pay", complete_by=5))
    desk.holds(told(begun, giving_up(hold=True), now=desk.clock.now()))
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
    held: Desk, deployed: tuple[Workflow, ...], reason: str
) -> None:
    """What follows might fail on it, and it could not be taken back; that it was not done can be said."""
    elsewhere = Desk(registry=Registry(deployed, {}), agents={"pay": Till()})
    elsewhere.clock.advance(60)
    elsewhere.holds(held.store.record(TASK))
    refused = await elsewhere.act("steps/pay/done", body=DONE)
    problem(refused, 409)
    assert refused.json["detail"] == f"{reason}: answer where it is."
    assert elsewhere.store.record(TASK).task.process_state is ProcessState.ERROR
    assert (await elsewhere.act("steps/pay/not-done")).status == 202


async def test_last_result_is_taken_only_where_its_version_is() -> None:
    """The answer to the caller is made of it."""
    once = workflow(step("pay", idempotent=False), name="paying")
    for deployed, status in (((), 409), ((once,), 202)):
        desk = Desk(registry=Registry(deployed, {}))
        desk.clock.advance(60)
        begun = told(pending(once), claimed(), started("pay", complete_by=5))
        desk.holds(told(begun, giving_up(hold=True), now=desk.clock.now()))
        assert (await desk.act("steps/pay/done", body=DONE)).status == status


async def test_last_result_must_do_for_the_answer() -> None:
    """The task ends with it, and its answer is not made again."""
    paying = replace(workflow(step("pay", idempotent=False), name="paying"), answer=_mail)
    desk = Desk(registry=Registry((paying,), {}))
    desk.clock.advance(60)
    begun = told(pending(paying), claimed(), started("pay", complete_by=5))
    desk.holds(told(begun, giving_up(hold=True), now=desk.clock.now()))
    refused = await desk.act("steps/pay/done", body=DONE | {"result": {"other": 1}})
    assert wrong_fields(refused) == ["result"]
    assert refused.json["errors"][0]["reason"] == (
        "what follows can't be made of it: its answer can't be given: KeyError: 'receipt'"
    )
    assert desk.store.record(TASK).task.process_state is ProcessState.ERROR
    assert (await desk.act("steps/pay/done", body=DONE)).json["state"] == "Processed"
