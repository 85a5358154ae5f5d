"""Slow steps, lost answers of the store, and results that cannot be recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from functions.agents.rest import RestAgent
from functions.pattern.agent_messages import AgentRequest
from functions.pattern.definition import Json, Registry
from functions.pattern.errors import TransientError, UnusableAnswerError
from functions.pattern.identity import Epoch, StepName
from functions.pattern.ports import Agent
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, Remedy, StepState, Way
from functions.pattern.transitions import apply
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunSteps
from functions.store import event_line, task_writer
from functions.store.state_store import TableStateStore
from tests.fakes.agents import ScriptedAgent, raising
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.clock import START
from tests.fakes.interventions import found_done, found_not_done, resubmission, undo_request
from tests.fakes.ports import fake_ports
from tests.fakes.remote_service import Answer
from tests.fakes.runners import limits, make_runs
from tests.fakes.tasks import completed, pending, told
from tests.fakes.workflows import LINE, TASK, step, workflow
from tests.unit.conftest import Service
from tests.unit.scheduler.bench import Bench, Process, over
from tests.unit.store.rows import Fault, MemoryRows, Writer


async def test_request_with_a_long_time_limit_leaves_while_a_slow_step_runs() -> None:
    """It takes this run no time: only its reply comes later, and to another run."""
    of = workflow(
        step("slow"),
        step("pick"),
        step("approve", "pick", via=Way.QUEUE, complete_within=600),
        name="approval",
    )
    bench = Bench(of, limits(seconds=300))
    bench.agents.slow("slow")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("slow")
    for _ in range(50):
        await asyncio.sleep(0)
    assert bench.states["pick"] == "Completed"
    sent = [agent for agent, _ in bench.requests.sent]
    bench.agents.let_go("slow")
    await running
    assert sent == ["approve"]


async def test_line_with_a_long_wait_for_a_reply_is_one_run() -> None:
    """A second one costs three events of history and a round trip, for nothing."""
    of = workflow(step("pick"), step("approve", "pick", via=Way.QUEUE, complete_within=600), name="approval")
    bench = Bench(of, limits(seconds=300))
    progress = await bench.run()
    assert progress["runs"] == 0
    assert bench.step("approve").state is StepState.RUNNING


@dataclass
class _FailingQueue:
    """Fails each time after 400 seconds; nobody may try it often."""

    bench: Bench
    tries: int = 0

    async def ask(self, agent: str, request: AgentRequest) -> None:  # noqa: ARG002 - the port's
        self.tries += 1
        self.bench.clock.advance(400)
        raise TransientError("no queue")


async def test_run_ends_within_its_time_though_a_request_cannot_be_sent() -> None:
    """The host would end it with `functionTimeout`, and the Scheduler with it, for all other replies too."""
    of = workflow(step("approve", via=Way.QUEUE, complete_within=1_600), name="approval")
    bench = Bench(of)
    queue = _FailingQueue(bench)
    runs = make_runs(
        bench.store,
        {},
        Registry((of,), {}),
        bench.clock,
        requests=queue,  # type: ignore[arg-type]
        bounds=limits(seconds=300),
    )
    await runs.run(RunInput(task=TASK, epoch=1, number=1, share=False))
    assert (bench.clock.now() - START).total_seconds() <= 400


@pytest.mark.parametrize("idempotent", [True, False])
async def test_start_that_is_written_after_the_outcomes_own_time_is_called(
    monkeypatch: pytest.MonkeyPatch, *, idempotent: bool
) -> None:
    """The store hangs for some seconds while an outcome is written, until its step's complete-by has passed.

    Outcome and next start are on record then. Nobody calls the next step: it costs a recovery, and one that
    must not be repeated ends in `Error` with an unknown outcome, though it was never called.
    """
    monkeypatch.setattr(task_writer, "_GRACE", 0.05)
    of = workflow(
        step("pick", complete_within=0.05), step("pay", "pick", idempotent=idempotent), name="line-2"
    )
    process = Process(of)

    def hang() -> dict[str, object]:
        process.rows.gate.clear()
        return {}

    process.agents.behaviours["pick"] = hang
    running = asyncio.create_task(process.run())
    await asyncio.sleep(0.5)  # hung: longer than complete-by and grace
    process.rows.gate.set()
    await running
    await process.writer.settle()
    assert process.step("pick").settled
    assert process.agents.steps == ["pick", "pay"]
    assert process.record.task.process_state is ProcessState.PROCESSED


async def test_claim_whose_answer_is_lost_for_long_still_calls_what_it_started() -> None:
    """Another process writes nine times before the first can read back: its write is not named any more."""
    others = [f"q{number}" for number in range(9)]
    of = workflow(step("pick"), step("send", "pick"), *map(step, others), name="busy")
    process = Process(of)
    process.agents.slow(*others)

    def lose_the_answer() -> dict[str, object]:
        process.rows.faults.append(Fault.LOST)
        process.rows.loss_gate.clear()
        return {}

    process.agents.behaviours["pick"] = lose_the_answer
    running = asyncio.create_task(process.run())
    await process.agents.until_called(*others)
    async with asyncio.timeout(5):
        while not process.step("pick").settled:
            await asyncio.sleep(0)
    other = Writer(process.rows)
    await other.knows(*(completed(name) for name in others))
    process.rows.loss_gate.set()
    process.agents.let_go(*others)
    await running
    assert "send" in process.agents.steps


@pytest.mark.parametrize("idempotent", [True, False])
async def test_first_start_is_called_by_its_run_although_the_claims_answer_never_came(
    monkeypatch: pytest.MonkeyPatch, *, idempotent: bool
) -> None:
    """A run that ends for lack of an answer leaves a step on record that nobody has called.

    No other run may call one that must not be repeated: only who made its start knows that it was not.
    """
    monkeypatch.setattr(task_writer, "_GRACE", 0.05)
    monkeypatch.setattr(event_line, "_LONGEST_DOUBT", 0.05)
    of = workflow(step("pay", idempotent=idempotent), name="once")
    process = Process(of, bounds=replace(limits(), start_within=0.05))
    process.rows.faults.append(Fault.LOST)
    process.rows.loss_gate.clear()
    process.agents.slow("pay")
    running = asyncio.create_task(process.run())
    async with asyncio.timeout(10):
        await process.agents.until_called("pay")
    process.rows.loss_gate.set()
    process.agents.let_go("pay")
    await running
    assert process.agents.steps == ["pay"]
    assert process.record.task.process_state is ProcessState.PROCESSED


TOKEN = "token-of-this-request"


OTHER = replace(workflow(step("pick"), step("fly", "pick"), name="other"), resource="others")


async def test_task_of_another_workflow_under_a_known_id_runs_its_own_steps() -> None:
    """What is remembered says which workflow it is; what is read says something else."""
    process = Process(LINE)
    store = TableStateStore(cast("Any", process.rows), process.writer, RecordingAnnouncer())
    agents = ScriptedAgent()
    names = {each.agent: agents for of in (LINE, OTHER) for each in of.steps}
    ports = fake_ports(store=store, clock=process.clock)
    runs = RunSteps(ports, names, Registry((LINE, OTHER), {}), limits())
    given = RunInput(task=TASK, epoch=1, number=1, share=False)
    await runs.run(given)
    assert agents.steps == ["pick", "send"]
    # Retention deletes it; another process admits another order under its id.
    process.rows.entities.clear()
    process.rows.entities.update(MemoryRows(pending(OTHER)).entities)
    process.rows._versions = {key: f"new-{key}" for key in process.rows.entities}
    await runs.run(given)
    assert process.record.task.process_state is ProcessState.PROCESSED
    assert agents.steps == ["pick", "send", "pick", "fly"]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_outcome_is_recorded_though_the_definition_has_got_a_step(*, idempotent: bool) -> None:
    """A task in flight meets a definition with one step more (before: recorded, then the run failed).

    The Agent is called, and its outcome is thrown away with the plan; every recovery calls it again.
    """
    pay = step("pay", idempotent=idempotent)
    before = workflow(pay, step("send", "pay"), name="shop")
    deployed = workflow(pay, step("send", "pay"), step("thank", "pay"), name="shop")
    process = Process(before)
    rows: object = process.rows
    store = TableStateStore(rows, process.writer, RecordingAnnouncer())  # type: ignore[arg-type]
    agents = {each.agent: process.agents for each in deployed.steps}
    runs = RunSteps(fake_ports(store=store, clock=process.clock), agents, Registry((deployed,), {}), limits())
    await runs.run(RunInput(task=TASK, epoch=1, number=1, share=False))
    assert process.agents.steps[0] == "pay"
    assert process.step("pay").state is StepState.COMPLETED


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


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize(("behaviour", "reason"), DONE_BUT.values(), ids=DONE_BUT)
async def test_step_that_was_done_is_held_with_the_reason(
    behaviour: Callable[[], Json], reason: str, *, idempotent: bool
) -> None:
    """Whatever its remedy: to call it refused would undo the order round an effect that stands."""
    pay = replace(PAYING.steps[1], idempotent=idempotent)
    bench = Bench(replace(PAYING, steps=(PAYING.steps[0], pay)))
    bench.agents.behaviours["pay"] = behaviour
    assert await bench.run() == over("Error")
    assert bench.step("pay").state is StepState.UNRECORDED
    assert bench.store.record(TASK).task.last_error == f"pay: it was done, but {reason}"


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
    service: Service, status: int
) -> None:
    """It is a success without a result: the task is held at once for that request, and nothing repeated."""
    mail = replace(step("mail", "pay"), request=_receipt)
    of = workflow(step("pay", idempotent=False, undo=True), mail, remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    agents: dict[str, Agent] = {"pay": RestAgent(service.caller()), "mail": bench.agents}
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
