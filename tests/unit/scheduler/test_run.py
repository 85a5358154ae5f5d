"""Runs of tasks: starts, calls, outcomes, limits, and processes that crash at any request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.agents.agent_call import Call, NotBegunError, RefusedError, UnusableResultError
from functions.core.definition.step_definition import EventStep, QueueStep, Retry, WorkflowStep
from functions.core.derive import ProcessState, derive
from functions.core.record import Direction, OperationState, TaskRecord
from functions.core.task_events import Answered, EventReceived, OutcomeKind, Verdict
from functions.messaging.agent_messages import Finding
from tests.fakes.simulated_table import TableFault
from tests.fakes.storage_process import virtual_now
from tests.unit.scheduler.steps import PRODUCTION, RUN, answering, chain, once, raising, step
from tests.unit.scheduler.world import Receipt, World, workflow
from tests.unit.storage.virtual import virtual

# The usual course


@virtual
async def test_five_step_order_takes_seven_transactions_and_no_read() -> None:
    """Each outcome is one transaction with the start that follows; the whole order is one activity.

    The gates are read each two seconds.
    """
    world = World(workflow(*chain(5)))
    await world.admit("t1")
    await asyncio.sleep(10)
    assert (len(world.table.transactions), world.table.reads) == (7, 2)
    record = await world.record("t1")
    assert derive(record).state is ProcessState.PROCESSED
    assert world.services.names() == ["s0", "s1", "s2", "s3", "s4"]
    assert world.activities == [(RUN, "done")]


@virtual
async def test_tasks_in_flight_share_transactions() -> None:
    """A hundred orders at once take at most 0.45 transactions each, and no read but those of the gates."""
    world = World(workflow(*chain(5)))
    await asyncio.gather(*(world.admit(f"t{number}") for number in range(100)))
    await asyncio.sleep(20)
    assert len(world.table.keys("!done|")) == 100
    assert (len(world.table.transactions) <= 45, world.table.reads) == (True, 2)
    assert len(world.services.calls) == 500


@virtual
async def test_start_is_on_record_before_its_call() -> None:
    """With the state, the request and the deadline of the step, which the Agent receives."""
    retry = Retry(first=1, factor=1, longest=1)
    world, seen = World(workflow(step("s0", retry=retry))), list[TaskRecord]()

    async def look(_call: Call) -> str:
        seen.append(await world.record("t1"))
        return '{"number":1}'

    world.services.behaviour["s0"] = look
    await world.admit("t1")
    await asyncio.sleep(5)
    [call], do = world.services.calls, seen[0].do("s0")
    assert (do.state, do.start_id, do.request) == (OperationState.RUNNING, call.start_id, call.request)
    assert (call.effect_key, call.retry, call.do_result) == ("t1.r1/s0/do", retry, None)
    assert do.complete_by == derive(seen[0]).complete_by == call.complete_by


@virtual
async def test_refused_step_is_undone_with_the_results_of_the_dos() -> None:
    """The undo has its own key and receives the result of its do; its own result is not recorded."""
    s0, s1 = chain(2)
    world = World(workflow(s0, s1))

    async def behave(call: Call) -> str:
        if call.direction is Direction.UNDO:
            return "x" * 2_000_000
        if call.step == "s1":
            raise RefusedError("no", has_unanswered=True)
        return '{"number":7}'

    world.services.behaviour |= {"s0": behave, "s1": behave}
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert derive(record).state is ProcessState.COMPENSATED
    undos = [call for call in world.services.calls if call.direction is Direction.UNDO]
    assert [(each.effect_key, each.do_result) for each in undos][-1] == ("t1.r1/s0/undo", '{"number":7}')
    assert all(call.idempotent for call in undos)
    assert (record.step("s0").undo.result, record.do("s1").unknown_starts) == (None, 1)


# Outcomes

OUTCOMES = [
    (RefusedError("no"), OperationState.REFUSED, OutcomeKind.REFUSED),
    (NotBegunError("down"), OperationState.NOT_STARTED, OutcomeKind.NOT_BEGUN),
    (UnusableResultError("x"), OperationState.DONE_WITHOUT_RESULT, OutcomeKind.DONE_WITHOUT_RESULT),
    (ConnectionError("lost"), OperationState.UNKNOWN, OutcomeKind.UNKNOWN),
]


@pytest.mark.parametrize(("error", "state", "kind"), OUTCOMES)
@virtual
async def test_error_of_an_agent_is_its_outcome(
    error: Exception, state: OperationState, kind: OutcomeKind
) -> None:
    """The outcome is recorded once and counted at the gate of the service."""
    world = World(workflow(once("s0"), on_failure="keep"))
    world.services.behaviour["s0"] = raising(error)
    await world.admit("t1")
    await asyncio.sleep(5)
    do = (await world.record("t1")).do("s0")
    assert (do.state, do.attempts[-1].outcome) == (state, str(kind))
    assert str(error) in (do.error or "")
    assert world.process.gates.reports == [("s0", kind)]
    assert len(world.services.calls) == 1


@pytest.mark.parametrize(
    "result", ['{"number":"x"}', "[]", "{", '{"number":NaN}', f'{{"n":"{"x" * 40_000}"}}']
)
@virtual
async def test_result_that_cannot_be_recorded_ends_in_a_question(result: str) -> None:
    """An operator supplies the result, and the task continues."""
    world = World(workflow(*chain(2)))
    world.services.behaviour["s0"] = answering(result)
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert (record.do("s0").state, record.do("s0").result) == (OperationState.DONE_WITHOUT_RESULT, None)
    assert derive(record).state is ProcessState.ERROR
    answer = Answered(
        epoch=record.epoch,
        step="s0",
        verdict=Verdict.DONE,
        who="op",
        reason="looked up",
        result='{"number":1}',
    )
    await world.process.change("t1", answer)
    assert derive(await world.until_rest("t1")).state is ProcessState.PROCESSED
    assert world.services.names() == ["s0", "s1"]


@virtual
async def test_result_that_the_table_rejects_counts_as_done_without_result() -> None:
    """A step row of many generations may have no room for a further result."""
    world = World(workflow(step("s0"), on_failure="keep"))
    large = 0

    def reject_large_result(changes: Any) -> None:
        nonlocal large
        for change in changes:
            if change.key == "t1|step|s0" and "DoResult" in change.row:
                large += 1
                change.row["DoResult"] = "x" * 40_000

    world.table.before_send = reject_large_result
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert large
    assert record.do("s0").state is OperationState.DONE_WITHOUT_RESULT
    assert len(world.services.calls) == 1


@virtual
async def test_call_ends_at_its_deadline() -> None:
    """Its slot is free for another step; its late outcome is not recorded, and the Supervisor recovers it."""
    world = World(workflow(step("s0"), step("s1")), steps_at_once=1)
    world.services.behaviour["s0"] = answering("{}", seconds=1000)
    await world.admit("t1")
    await asyncio.sleep(22)
    record = await world.record("t1")
    assert (record.do("s0").state, record.epoch) == (OperationState.RUNNING, 1)
    assert record.do("s1").state is OperationState.DONE
    assert world.activities == [(RUN, "done")]
    assert world.services.under_way == 0
    del world.services.behaviour["s0"]
    assert (await world.until_rest("t1")).failures == 1


@virtual
async def test_timeout_of_a_step_that_must_not_be_repeated_is_a_question() -> None:
    """It is recorded after the end of the run, although the first attempt fails. No second call follows."""
    world = World(workflow(once("s0")), run_seconds=20.02)
    world.services.behaviour["s0"] = answering("{}", seconds=1000)
    await world.admit("t1")
    await asyncio.sleep(19)
    world.table.fail_next(TableFault.NOT_SENT)
    await asyncio.sleep(3)
    record = await world.record("t1")
    assert (record.do("s0").state, derive(record).state) == (OperationState.UNKNOWN, ProcessState.ERROR)
    assert len(world.services.calls) == 1


@virtual
async def test_start_that_is_recorded_after_its_deadline_calls_nothing() -> None:
    """The service was not called, so the outcome is known, and the gate stays as it is."""
    world = World(workflow(once("s0")))
    world.table.seconds = 15
    await world.admit("t1")
    await asyncio.sleep(80)
    world.table.seconds = 0
    record = await world.record("t1")
    assert (record.do("s0").state, record.do("s0").gate) == (OperationState.NOT_STARTED, "s0")
    assert (world.services.calls, world.process.gates.reports) == ([], [])


@virtual
async def test_closed_gate_defers_without_a_call() -> None:
    """The run ends; the release chain starts the next one. A step without its Agent is deferred, too."""
    world = World(workflow(step("s0"), step("s1")))
    del world.process.runs.agents["s1"]  # type: ignore[attr-defined]
    await world.process.gates.report("s0", OutcomeKind.NOT_BEGUN, virtual_now())
    await world.admit("t1")
    await asyncio.sleep(3)
    record = await world.record("t1")
    assert [(record.do(name).state, record.do(name).gate) for name in ("s0", "s1")] == [
        (OperationState.NOT_STARTED, "s0"),
        (OperationState.NOT_STARTED, "s1"),
    ]
    assert (world.services.calls, world.activities) == ([], [(RUN, "done")])
    assert len(world.process.gates.reports) == 1


@pytest.mark.parametrize(
    ("finding", "fences", "state"),
    [
        (Finding.DONE, False, ProcessState.PROCESSED),
        (Finding.NOT_DONE, True, ProcessState.PROCESSED),
        (Finding.NOT_DONE, False, ProcessState.ERROR),
        (Finding.UNKNOWN, True, ProcessState.ERROR),
    ],
)
@virtual
async def test_unknown_outcome_is_looked_up(finding: Finding, *, fences: bool, state: ProcessState) -> None:
    """Done counts; "not done" starts the step again only if the service fences earlier starts."""
    world = World(workflow(once("s0", agent="finder")))
    agent = world.process.runs.agents["finder"]
    agent.fences_starts = fences
    world.services.findings["s0"] = finding

    async def lose_first_answer(_call: Call) -> str:
        if len(world.services.calls) == 1:
            raise ConnectionError("lost")
        return '{"number":3}'

    world.services.behaviour["s0"] = lose_first_answer
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert derive(record).state is state
    expected = 2 if (finding, fences) == (Finding.NOT_DONE, True) else 1
    assert (len(world.services.calls), len(world.services.found)) == (expected, 1)
    assert world.services.found[0].start_id == world.services.calls[0].start_id
    assert world.activities[0] == (RUN, "done")


@pytest.mark.parametrize(("seconds", "text"), [(1000, "find: TimeoutError"), (0, "find: ")])
@virtual
async def test_look_up_without_an_answer_leaves_the_outcome_unknown(seconds: float, text: str) -> None:
    """It hangs, or returns nothing. It happens once, and an operator decides."""
    world = World(workflow(once("s0", agent="finder")))
    world.services.behaviour["s0"] = raising(ConnectionError("lost"))
    found: list[Call] = []

    async def find(call: Call) -> Any:
        found.append(call)
        await asyncio.sleep(seconds)

    world.services.find = find  # type: ignore[method-assign]
    await world.admit("t1")
    await asyncio.sleep(25)
    record = await world.record("t1")
    assert (derive(record).state, record.do("s0").finds_left, len(found)) == (ProcessState.ERROR, 0, 1)
    assert text in (record.do("s0").error or "")
    assert world.activities == [(RUN, "done")]


# Limits


@virtual
async def test_twenty_ready_steps_run_as_slots_become_free() -> None:
    """At most `steps_at_once` calls are under way, and one activity carries out all."""
    world = World(workflow(step("s", for_each=lambda parcel: parcel.items, at_once=90)), steps_at_once=4)
    await world.admit("t1", items=range(20))
    await asyncio.sleep(10)
    assert derive(await world.record("t1")).state is ProcessState.PROCESSED
    assert (world.services.most_under_way, len(world.services.calls)) == (4, 20)
    assert world.activities == [(RUN, "done")]


@virtual
@pytest.mark.parametrize(("number", "seconds"), [(3, 200), (1, 230)], ids=["slots", "the length of the run"])
async def test_run_that_waits_counts_no_failure_after_an_event(number: int, seconds: int) -> None:
    """The work of an earlier run is not lost when a later run of the epoch has ended."""
    first, approval = step("first"), EventStep("approval", event=Receipt, complete_within=3600)
    wide = [step(f"w{each}", first, complete_within=seconds) for each in range(number)]
    flow = workflow(first, approval, step("small", approval), *wide)
    world = World(flow, steps_at_once=2, settings=PRODUCTION)
    world.services.behaviour["first"] = answering('{"number":1}', 10)
    for each in wide:
        world.services.behaviour[each.name] = answering('{"number":1}', 100)
    await world.admit("t1")
    await asyncio.sleep(2)
    await world.process.change("t1", EventReceived(step="approval", body='{"number":1}', who="me"))
    record = await world.until_rest("t1")
    assert (derive(record).state, record.failures, record.epoch) == (ProcessState.PROCESSED, 0, 1)
    assert len(world.services.calls) == number + 2


@pytest.mark.parametrize("items", [8, 60])
@virtual
async def test_look_up_has_a_slot_before_further_items(items: int) -> None:
    """It would have no time left after them."""
    card, many = once("card", agent="finder", complete_within=30), {"for_each": lambda parcel: parcel.items}
    world = World(workflow(card, step("s", **many), on_failure="keep"), settings=PRODUCTION)
    world.services.behaviour |= {"card": raising(ConnectionError("lost")), "s": answering("{}", 15)}
    world.services.findings["card"] = Finding.DONE
    await world.admit("t1", items=range(items))
    assert (await world.until_rest("t1", seconds=3000)).do("card").state is OperationState.DONE
    assert world.services.most_under_way <= 16


@pytest.mark.parametrize("seconds", [40, 100])
@virtual
async def test_long_look_up_happens_once_in_a_slot_of_its_gate(seconds: float) -> None:
    """A further run does not repeat it, unless it had no slot. The Supervisor recovers no task meanwhile."""
    pays = [once(f"pay{each}", agent="finder", complete_within=225) for each in range(3)]
    approval = EventStep("approval", event=Receipt, complete_within=3600)
    world = World(workflow(*pays, approval, step("small", approval)), settings=PRODUCTION)
    await world.process.gates.set_calls_at_once("finder", 1)
    world.services.find_seconds = seconds
    for each in pays:
        world.services.behaviour[each.name] = raising(ConnectionError("lost"))
        world.services.findings[each.name] = Finding.DONE
    await world.admit("t1")
    await asyncio.sleep(5)
    await world.process.change("t1", EventReceived(step="approval", body='{"number":1}', who="me"))
    record = await world.until_rest("t1")
    assert (derive(record).state, record.failures, record.epoch) == (ProcessState.PROCESSED, 0, 1)
    assert (len(world.services.found), world.services.most_under_way) == (3, 2)  # one of them, and "small"


@virtual
async def test_call_that_may_outlast_the_run_needs_another_activity() -> None:
    """A call of 20 s starts within the first 10 s of a run of 30 s."""
    world = World(workflow(*chain(4)), run_seconds=30)
    world.services.seconds = 8
    await world.admit("t1")
    await asyncio.sleep(60)
    record = await world.record("t1")
    assert derive(record).state is ProcessState.PROCESSED
    assert world.activities == [(RUN, "more"), (RUN, "done")]
    assert (record.failures, {op.run for _, op in record.operations}) == (0, {1})


@virtual
async def test_call_of_a_task_in_flight_that_is_longer_than_a_run_ends_with_the_run() -> None:
    """A deployment has shortened the runs."""
    first = step("s0")
    world = World(workflow(first, step("s1", first, complete_within=100)), run_seconds=30)
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert (derive(record).state, record.failures) == (ProcessState.PROCESSED, 0)
    assert world.activities == [(RUN, "more"), (RUN, "done")]


@pytest.mark.parametrize(("kind", "items"), [("held", 50), ("skipped", 50), ("needed", 13), ("queue", 26)])
@virtual
async def test_part_of_a_plan_has_a_start(kind: str, items: int) -> None:
    """Other steps start beside items that are skipped or wait behind a gate; nothing is recovered."""
    when = None if kind == "held" else lambda *_: False
    first = step("items", for_each=lambda parcel: parcel.items, at_once=90, when=when)
    text = "ü" * 29_800 if kind in {"needed", "queue"} else ""
    options: dict[str, Any] = {
        "request": lambda *_: {"items": [], "text": text},
        "needs": [first] if text else [],
        "for_each": lambda parcel: parcel.items[:40],
        "at_once": 90,
        "complete_within": 600,
    }
    last = QueueStep("last", **options) if kind == "queue" else WorkflowStep("last", workflow="c", **options)
    world = World(workflow(first, last), workflow(step("one"), name="c"), settings=PRODUCTION)
    if kind == "held":
        await world.process.gates.hold("items", "maintenance", "op")
    await world.admit("t1", items=range(items))
    for _ in range(20):
        await asyncio.sleep(5)
        await world.sweep()
    record = await world.record("t1")
    assert all(record.do(f"last.{number}").number is not None for number in range(min(40, items)))
    assert (record.epoch, record.failures) == (1, 0)


@virtual
async def test_call_waits_for_a_slot_of_its_gate() -> None:
    """A call that gets none within half of its time is not begun, and says nothing about the service."""
    world = World(workflow(once("s0", agent="a"), once("s1", agent="a"), step("s2", agent="a")))
    await world.process.gates.set_calls_at_once("a", 1)
    world.services.behaviour["s0"] = answering('{"number":1}', seconds=8)
    world.services.behaviour["s1"] = answering('{"number":1}', seconds=8)
    await world.admit("t1")
    await asyncio.sleep(19)
    record = await world.record("t1")
    assert [record.do(name).state for name in ("s0", "s1")] == [OperationState.DONE] * 2
    assert (record.do("s2").gate, record.failures, world.services.most_under_way) == ("a", 0, 1)
    assert world.process.gates.reports == [("a", OutcomeKind.DONE)] * 2
