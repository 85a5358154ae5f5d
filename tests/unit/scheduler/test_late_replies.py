"""What is known of a queue step that must not be repeated is kept, however late its Agent says it."""

from __future__ import annotations

from typing import Any

from functions.pattern.agent_messages import AgentReply
from functions.pattern.identity import StepName
from functions.pattern.states import Outcome, ProcessState, StepState, Way
from functions.scheduler.takers import ReplyTaker
from tests.fakes.interventions import giving_up, resubmission
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.tasks import FIRST, told
from tests.fakes.times import RecordedRefusals
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.bench import Bench

PAY = StepName("pay")


async def _requested_and_held() -> tuple[Bench, str]:
    """Return a task that was held when nothing was heard of its payment, and the request's token."""
    bench = Bench(workflow(step("pay", idempotent=False, via=Way.QUEUE), name="paying"))
    await bench.run()
    bench.clock.advance(60)
    bench.store.put(told(bench.store.record(TASK), giving_up(hold=True), now=bench.clock.now()))
    return bench, bench.requests.sent[0][1].token


async def _take(bench: Bench, **said: Any) -> None:
    ports = fake_ports(store=bench.store, clock=bench.clock, rejected=RecordedRejections())
    reply = AgentReply.model_validate(
        {"schema_version": 1, "task_id": TASK, "step": PAY, "epoch": FIRST, **said}
    )
    taker = ReplyTaker(ports, limits(), RecordedRefusals().alert)
    await taker.take("m-1", reply.model_dump_json().encode(), RecordedSchedulers())


async def test_late_reply_is_known_on_its_step_only() -> None:
    """The task stays held; a resubmission repeats nothing, and finds nothing left to do."""
    bench, token = await _requested_and_held()
    held = bench.store.record(TASK)
    await _take(bench, token=token, outcome=Outcome.COMPLETED, result={"receipt": 1})
    known = bench.store.record(TASK)
    assert (known.step(PAY).state, known.step(PAY).result) == (StepState.COMPLETED, b'{"receipt":1}')
    assert known.task == held.task
    again = told(known, resubmission(), now=bench.clock.now())
    assert again.task.process_state is ProcessState.PROCESSED


async def test_late_reply_without_a_usable_result_says_that_it_was_done() -> None:
    """Nobody may have it run again."""
    bench, token = await _requested_and_held()
    await _take(bench, token=token, outcome=Outcome.COMPLETED, no_result="no JSON")
    pay = bench.store.record(TASK).step(PAY)
    assert (pay.state, pay.error) == (StepState.UNRECORDED, "it was done, but no JSON")


async def test_late_reply_with_another_token_counts_for_nothing() -> None:
    """Whoever knows the start id alone, which is no secret, can't make one."""
    bench, _ = await _requested_and_held()
    start_id = bench.step("pay").start_id
    assert start_id is not None
    await _take(bench, token=start_id, outcome=Outcome.COMPLETED)
    assert bench.step("pay").state is StepState.RUNNING
