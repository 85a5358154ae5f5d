"""Steps whose Agent is behind a queue: recorded, requested, and left to their replies."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.agent_messages import AgentRequest
from functions.pattern.identity import StepName
from functions.pattern.states import Direction, Remedy, StepState, Way
from tests.fakes.interventions import done, recovered
from tests.fakes.tasks import FIRST, after, claimed, failed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.bench import Bench, going_on

QUEUED = workflow(
    step("pick", undo=True, via=Way.QUEUE), step("send", "pick", via=Way.QUEUE), step("note"), name="queued"
)
AWAITED = {"pick": after(10).isoformat()}


async def test_request_carries_what_an_agent_needs_and_is_waited_for() -> None:
    """The step is recorded as running before the request leaves, with the same token; others go on."""
    bench = Bench(QUEUED)
    assert await bench.run() == going_on(awaited=AWAITED)
    token = bench.step("pick").token
    assert token is not None
    assert token != bench.step("pick").start_id
    expected = AgentRequest(
        schema_version=1,
        task_id=TASK,
        step=StepName("pick"),
        epoch=FIRST,
        token=token,
        direction=Direction.DO,
        effect_key="task-1.0a1b2c3d/pick/do",
        complete_by=after(10),
        complete_within=10,
        idempotent=True,
        request={"weight": 3, "after": []},
        result=None,
    )
    assert bench.requests.sent == [("pick", expected)]
    assert bench.agents.steps == ["note"]


async def test_request_says_whether_it_may_be_carried_out_twice() -> None:
    """Its Agent has no other way to know; an undo always may."""
    once = step("pay", undo=True, via=Way.QUEUE, idempotent=False)
    of = workflow(once, step("send", "pay"), name="queued", remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    await bench.run()
    bench.store.put(told(pending(of), claimed(), *done("pay"), started("send"), failed("send")))
    await bench.run(epoch=2)
    assert [(request.direction, request.idempotent) for _, request in bench.requests.sent] == [
        (Direction.DO, False),
        (Direction.UNDO, True),
    ]


async def test_run_again_sends_the_same_request() -> None:
    """Its first execution may have died before it sent; the effect key keeps the effect single."""
    bench = Bench(QUEUED)
    await bench.run()
    bench.clock.advance(3)
    assert await bench.run() == going_on(awaited=AWAITED)
    first, again = (request.model_dump(exclude={"request"}) for _, request in bench.requests.sent)
    assert first == again
    await bench.run(2, share=True)
    assert len(bench.requests.sent) == 2


async def test_next_epoch_has_its_own_token() -> None:
    """A reply to the old request can't answer the new one."""
    bench = Bench(QUEUED)
    await bench.run()
    bench.store.put(recovered(bench.store.record(TASK)))
    await bench.run(epoch=2)
    first, second = (request for _, request in bench.requests.sent)
    assert first.token != second.token
    assert first.effect_key == second.effect_key == "task-1.0a1b2c3d/pick/do"


async def test_undo_is_requested_too() -> None:
    """The same queue, the other direction, the other effect key."""
    of = replace(QUEUED, on_failure=Remedy.COMPENSATE)
    bench = Bench(of)
    bench.store.put(told(pending(of), claimed(), *done("pick"), started("send"), failed("send")))
    await bench.run(epoch=2)
    [(_, request)] = bench.requests.sent
    assert (request.direction, request.effect_key) == (Direction.UNDO, "task-1.0a1b2c3d/pick/undo")


async def test_request_is_sent_again_when_the_queue_fails() -> None:
    """A blip is outlived."""
    bench = Bench(QUEUED)
    bench.requests.faults = 1
    assert await bench.run() == going_on(awaited=AWAITED)
    assert len(bench.requests.sent) == 1


async def test_request_that_cannot_be_sent_in_time_expires() -> None:
    """The step stays as it is recorded, and the Supervisor finds it."""
    bench = Bench(QUEUED)
    bench.requests.faults = 1_000

    def pass_time() -> dict[str, object]:
        bench.clock.advance(10)
        return {}

    bench.agents.behaviours["note"] = pass_time
    await bench.run()
    assert bench.requests.sent == []
    assert bench.step("pick").state is StepState.RUNNING
