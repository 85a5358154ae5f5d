"""A step that must not be repeated and is known done is not "refused", even if its result can't be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from functions.agents.rest import RestAgent
from functions.pattern.definition import Json, Registry
from functions.pattern.errors import UnusableAnswerError
from functions.pattern.identity import Epoch, StepName
from functions.pattern.ports import Agent
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, Remedy, StepState
from functions.pattern.transitions import apply
from tests.fakes.agents import raising
from tests.fakes.interventions import found_done, found_not_done, resubmission, undo_request
from tests.fakes.remote_service import Answer, RemoteServiceFake
from tests.fakes.runners import make_runs
from tests.fakes.tasks import told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.conftest import MakeRemote
from tests.unit.scheduler.bench import Bench, over, refuse_results

PAYING = workflow(
    step("pick", undo=True), step("pay", "pick", idempotent=False), name="once", remedy=Remedy.COMPENSATE
)
DONE_BUT: dict[str, tuple[Callable[[], Json], str]] = {
    "no JSON": (
        raising(UnusableAnswerError("shop answered what is not JSON")),
        "shop answered what is not JSON",
    ),
    "too large": (lambda: {"text": "x" * 25_000}, "its result has 25011 bytes; at most 24576 can be sent"),
    "not a number": (
        lambda: {"sum": [1, float("nan")]},
        "its result can't be written as JSON: result.sum[1] is nan",
    ),
    "nothing": (cast("Any", lambda: None), "its result is of type NoneType, not a dict"),
    "a text": (cast("Any", lambda: "paid"), "its result is of type str, not a dict"),
}


@pytest.mark.parametrize(("behaviour", "reason"), DONE_BUT.values(), ids=DONE_BUT)
async def test_step_that_was_done_is_held_with_the_reason(behaviour: Callable[[], Json], reason: str) -> None:
    """Whatever its remedy: to call it refused would undo the order round an effect that stands."""
    bench = Bench(PAYING)
    bench.agents.behaviours["pay"] = behaviour
    assert await bench.run() == over("Error")
    assert bench.step("pay").state is StepState.UNRECORDED
    assert bench.store.record(TASK).task.last_error == f"pay: it was done, but {reason}"


async def test_step_whose_result_the_store_refuses_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was done all the same."""
    bench = Bench(workflow(step("pay", idempotent=False), name="once", remedy=Remedy.COMPENSATE))
    refuse_results(bench.store, monkeypatch)
    assert await bench.run() == over("Error")
    assert bench.step("pay").state is StepState.UNRECORDED


async def test_only_its_result_or_an_undo_leads_on() -> None:
    """It is known to be done, so that nobody may say otherwise, or have it run again."""
    bench = Bench(PAYING)
    bench.agents.behaviours["pay"] = DONE_BUT["too large"][0]
    await bench.run()
    held, now = bench.store.record(TASK), bench.clock.now()
    for event in (resubmission(), found_not_done("pay")):
        assert apply(held, event, now) == Refused(RefusalReason.KNOWN_DONE)
    assert told(held, found_done("pay"), now=now).task.process_state is ProcessState.PROCESSED
    assert told(held, undo_request(), now=now).task.process_state is ProcessState.PENDING
    assert bench.agents.steps == ["pick", "pay"]


def _receipt(_: object, results: Mapping[StepName, Any]) -> Json:
    return {"about": results[StepName("pay")]["receipt"]}


@pytest.mark.parametrize("status", [200, 204])
async def test_answer_without_a_body_is_found_out_by_the_request_that_needs_it(
    service: RemoteServiceFake, make_remote: MakeRemote, status: int
) -> None:
    """It is a success without a result: the task is held at once for that request, and nothing repeated."""
    mail = replace(step("mail", "pay"), request=_receipt)
    of = workflow(step("pay", idempotent=False, undo=True), mail, remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    agents: dict[str, Agent] = {"pay": RestAgent(make_remote()), "mail": bench.agents}
    bench.runs = make_runs(bench.store, agents, Registry((of,), {}), bench.clock)
    service.answers = [Answer(status, pieces=())]
    for epoch in (1, 2):
        assert await bench.run(epoch=epoch) == over("Error")
        assert bench.step("pay").result == b"{}"
        assert bench.store.record(TASK).task.last_error == "mail: KeyError: 'receipt'"
        assert (bench.step("mail").state, bench.step("mail").error) == (
            StepState.FAILED,
            "KeyError: 'receipt'",
        )
        bench.store.put(told(bench.store.record(TASK), resubmission(Epoch(epoch)), now=bench.clock.now()))
    assert (len(service.received), bench.agents.calls) == (1, [])
