"""Steps whose Agent is behind a queue: requested, requested again, undone, or not sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from functions.pattern.agent_messages import AgentRequest, not_taken
from functions.pattern.definition import Json, Results, Step, Workflow
from functions.pattern.errors import UnwritableError
from functions.pattern.events import Event, StepNotTaken
from functions.pattern.identity import StepName, TaskId
from functions.pattern.states import Direction, Remedy, StepState, Way
from functions.scheduler.takers import ReplyTaker
from tests.fakes.interventions import done, recovered
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.tasks import FIRST, after, claimed, completed, failed, pending, started, told
from tests.fakes.times import MemoryTimes, RecordedRefusals
from tests.fakes.workflows import LINE, TASK, Parcel, step, workflow
from tests.unit.scheduler.bench import Bench, going_on
from tests.unit.scheduler.replay import Instance

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
    # Undo is requested too.
    of = replace(QUEUED, on_failure=Remedy.COMPENSATE)
    bench = Bench(of)
    bench.store.put(told(pending(of), claimed(), *done("pick"), started("send"), failed("send")))
    await bench.run(epoch=2)
    [(_, request)] = bench.requests.sent
    assert (request.direction, request.effect_key) == (Direction.UNDO, "task-1.0a1b2c3d/pick/undo")


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
    # Next epoch has its own token.
    bench = Bench(QUEUED)
    await bench.run()
    bench.store.put(recovered(bench.store.record(TASK)))
    await bench.run(epoch=2)
    before, after_it = (request for _, request in bench.requests.sent)
    assert before.token != after_it.token
    assert before.effect_key == after_it.effect_key == "task-1.0a1b2c3d/pick/do"


async def test_request_is_sent_again_when_the_queue_fails() -> None:
    """A blip is outlived."""
    bench = Bench(QUEUED)
    bench.requests.faults = 1
    assert await bench.run() == going_on(awaited=AWAITED)
    assert len(bench.requests.sent) == 1
    # Request that cannot be sent in time expires.
    bench = Bench(QUEUED)
    bench.requests.faults = 1_000

    def pass_time() -> dict[str, object]:
        bench.clock.advance(10)
        return {}

    bench.agents.behaviours["note"] = pass_time
    await bench.run()
    assert bench.requests.sent == []
    assert bench.step("pick").state is StepState.RUNNING


PICK = StepName("pick")
FIRST_QUEUED = workflow(step("pick", via=Way.QUEUE), step("send", "pick"), name="queued")
_WAIT = 60
SECOND_TIME = {"dispatches": {"pick": 2}}

#: As in `test_orchestrator.py`.
pytestmark = pytest.mark.filterwarnings("ignore:azure.functions df_loads was called:DeprecationWarning")


class Queues(Bench):
    """A task whose request may wait a minute, and who takes the Agent's replies."""

    def __init__(self, of: Workflow = FIRST_QUEUED) -> None:
        super().__init__(of, limits(pick_up_within=_WAIT))
        self.schedulers = RecordedSchedulers()
        ports = fake_ports(
            store=self.store, clock=self.clock, rejected=RecordedRejections(), times=MemoryTimes()
        )
        self.taker = ReplyTaker(ports, limits(), RecordedRefusals().alert)

    async def tell_not_taken(self, number: int = -1) -> None:
        """Have the Agent say that it did not take a request."""
        reply = not_taken(self.requests.sent[number][1])
        await self.taker.take("m-1", reply.model_dump_json().encode(), self.schedulers)


async def test_request_may_wait_before_its_own_time_begins() -> None:
    """The record holds one limit for both; the Agent is told its own."""
    bench = Queues()
    assert await bench.run() == going_on(awaited={"pick": after(_WAIT + 10).isoformat()})
    [(_, request)] = bench.requests.sent
    assert (request.complete_by, request.complete_within) == (after(_WAIT + 10), 10)
    assert bench.step("pick").asked_at == after(0)
    # Activity has no such wait.
    bench = Queues(workflow(step("pick")))
    await bench.run()
    assert [call.complete_by for call in bench.agents.calls] == [after(10)]
    assert bench.step("pick").asked_at is None


async def test_step_has_its_time_from_when_there_is_room_for_it() -> None:
    """Those that wait for room beside others have not begun."""
    bench = Bench(workflow(step("pick"), step("wrap"), step("note")), limits(at_once=1))

    def take_nine_seconds() -> dict[str, object]:
        bench.clock.advance(9)
        return {}

    bench.agents.behaviours |= dict.fromkeys(bench.states, take_nine_seconds)
    for number in (1, 2, 3):
        await bench.run(number, share=True)
    assert [call.complete_by for call in bench.agents.calls] == [after(10), after(19), after(28)]
    assert set(bench.states.values()) == {"Completed"}


async def test_request_that_was_not_taken_is_sent_again_in_its_epoch() -> None:
    """Its Scheduler hears of it by the name of the first dispatch, and awaits the second by another."""
    bench = Queues()
    await bench.run()
    bench.clock.advance(65)
    await bench.tell_not_taken()
    assert bench.schedulers.woken == [(TASK, FIRST, PICK, {**going_on(runs=1), **SECOND_TIME})]
    assert bench.schedulers.dispatches == [1]
    awaited = {"pick": after(65 + _WAIT + 10).isoformat()}
    assert await bench.run(2, share=True) == {**going_on(awaited=awaited), **SECOND_TIME}
    first, second = (request for _, request in bench.requests.sent)
    assert (second.epoch, second.dispatch, second.message_id) == (FIRST, 2, f"{first.message_id}.r2")
    assert (first.effect_key, first.token != second.token) == (second.effect_key, True)
    assert bench.store.record(TASK).task.failure_count == 0


async def test_scheduler_that_may_not_have_heard_is_told_by_the_same_name() -> None:
    """A crash between the record and the event brings the reply again, maybe after the next dispatch."""
    bench = Queues()
    await bench.run()
    await bench.tell_not_taken()
    await bench.tell_not_taken()
    await bench.run(2, share=True)
    await bench.tell_not_taken(0)
    assert bench.schedulers.dispatches == [1, 1, 1]
    assert len(bench.requests.sent) == 2
    await bench.tell_not_taken()
    assert bench.schedulers.dispatches[-1] == 2


async def test_outcome_of_a_request_that_was_not_taken_is_no_forgery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It counts for nothing, and the log says why."""
    caplog.set_level("INFO")
    bench = Queues()
    await bench.run()
    await bench.tell_not_taken()
    await bench.run(2, share=True)
    late = not_taken(bench.requests.sent[0][1]).model_copy(update={"outcome": "completed"})
    await bench.taker.take("m-2", late.model_dump_json().encode(), bench.schedulers)
    said = [record for record in caplog.records if "counts for nothing" in record.getMessage()]
    assert [record.levelname for record in said] == ["INFO"]
    assert said[0].getMessage().endswith("its request was not taken, as was said before")


async def test_reply_that_the_store_refuses_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else can be recorded in its place."""
    bench = Queues()
    await bench.run()

    async def refuse(task: TaskId, event: Event, **_options: object) -> None:
        assert isinstance(event, StepNotTaken)
        raise UnwritableError(task, "PropertyValueTooLarge")

    monkeypatch.setattr(bench.store, "change", refuse)
    with pytest.raises(UnwritableError):
        await bench.tell_not_taken()


IN_A_MINUTE, IN_TWO = "2026-11-21T10:01:10+00:00", "2026-11-21T10:02:10+00:00"


def _dispatched_again() -> Instance:
    instance = Instance(queued=("pick",))
    instance.begin()
    instance.end(1, awaited={"pick": IN_A_MINUTE})
    assert instance.reply("reply:pick:1:1", runs=1, **SECOND_TIME) == [2]
    return instance


def test_scheduler_awaits_each_dispatch_by_a_name_of_its_own() -> None:
    """The event of the first has come, and would give the second wait nothing, or the first one's."""
    instance = _dispatched_again()
    instance.end(2, awaited={"pick": IN_TWO}, **SECOND_TIME)
    assert instance.awaited[-1] == "reply:pick:1:2"
    assert instance.output is None
    instance.reply("reply:pick:1:2", state="Processed", over=True)
    assert instance.output == "Processed"
    # Reply that comes before its run is back is heard.
    instance = _dispatched_again()
    assert instance.reply("reply:pick:1:2", runs=1) == [3]
    assert instance.end(2, awaited={"pick": IN_TWO}, **SECOND_TIME) == []
    instance.end(3, state="Processed", over=True)
    assert instance.output == "Processed"
    # The end of the dispatching run may arrive first.
    instance = Instance(queued=("pick",))
    instance.begin()
    instance.end(1, awaited={"pick": IN_TWO}, **SECOND_TIME)
    assert instance.reply("reply:pick:1:1", runs=1, **SECOND_TIME) == [2]
    instance.end(2)
    assert instance.output is None
    instance.reply("reply:pick:1:2", state="Processed", over=True)
    assert instance.output == "Processed"


BOOKED: list[Event] = [started("flight"), completed("flight", result=b'{"seat":"4A"}')]
CHARGED: list[Event] = [started("charge"), completed("charge", result=b'{"payment":"P-1"}')]
REFUSED: list[Event] = [started("charge"), failed("charge")]


def _refund(parcel: Parcel, results: Results) -> Json:
    charged = results[StepName("charge")]
    return {"weight": parcel.weight, "seat": results[StepName("flight")]["seat"], "charged": charged}


def _undoing(charge: Step, *outcome: Event) -> Bench:
    """Let the undo of a flight and its charge begin."""
    of = workflow(step("flight"), charge, step("mail", "charge"), remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    record = told(pending(of), claimed(), *BOOKED, *outcome)
    ends: list[Event] = [] if record.task.direction is Direction.UNDO else [started("mail"), failed("mail")]
    bench.store.put(told(record, *ends))
    return bench


CHARGE = replace(step("charge", "flight", undo=True), undo_request=_refund)


@pytest.mark.parametrize(
    ("outcome", "result"), [(CHARGED, {"payment": "P-1"}), (REFUSED, None)], ids=["known", "unknown"]
)
async def test_undo_gets_what_the_do_gave(outcome: list[Event], result: Json | None) -> None:
    """In the call, and in what the step's `undo_request` makes its request of."""
    bench = _undoing(CHARGE, *outcome)
    await bench.run(epoch=2)
    [call] = bench.agents.calls
    assert call.result == result
    assert call.request == {"weight": 3, "seat": "4A", "charged": result}


async def test_without_a_request_of_its_own_an_undo_gets_that_of_the_do() -> None:
    """As its Agent knows it."""
    bench = _undoing(replace(CHARGE, undo_request=None), *CHARGED)
    await bench.run(epoch=2)
    [call] = bench.agents.calls
    assert (call.request, call.result) == ({"weight": 3, "after": ["flight"]}, {"payment": "P-1"})
    # Do gets no result.
    bench = Bench(workflow(step("flight")))
    await bench.run()
    assert [call.result for call in bench.agents.calls] == [None]
    # Agent behind a queue gets the same.
    bench = _undoing(replace(CHARGE, via=Way.QUEUE), *CHARGED)
    await bench.run(epoch=2)
    [(_, request)] = bench.requests.sent
    assert isinstance(request, AgentRequest)
    assert (request.direction, request.result) == (Direction.UNDO, {"payment": "P-1"})
    assert request.request == {"weight": 3, "seat": "4A", "charged": {"payment": "P-1"}}


@pytest.mark.filterwarnings("ignore:azure.functions df_loads was called:DeprecationWarning")
def test_instance_outlives_a_reply_that_is_recorded_at_the_last_moment() -> None:
    """It is recorded before complete-by, by the clock of its host, and the Scheduler is told a moment later.

    By then the instance has ended: what the reply makes ready waits for a recovery. (The Supervisor allows
    `skew_seconds` for just this.)
    """
    instance = Instance(queued=("pick",))
    instance.begin()
    instance.end(1, awaited={"pick": after(20).isoformat()})
    [timer] = instance.timers
    assert datetime.fromisoformat(timer["fireAt"]) > after(20)


async def test_run_again_calls_no_agent_after_complete_by() -> None:
    """Durable runs a lost activity again after minutes; complete-by is checked before each call (§8)."""
    bench = Bench(LINE)
    bench.store.put(told(pending(LINE), claimed(), started("pick", complete_by=7)))
    bench.clock.advance(8)
    await bench.run()
    assert bench.agents.calls == []


@pytest.mark.parametrize("idempotent", [True, False])
async def test_outcome_of_what_must_not_be_repeated_is_told_as_long_as_its_activity_lives(
    *, idempotent: bool
) -> None:
    """A store that is down until after its complete-by costs no knowledge of a payment (§4)."""
    bench = Bench(workflow(step("pay", complete_within=10, idempotent=idempotent)))
    await bench.run()
    last = bench.store.limits[-1]
    assert last is not None
    assert (last > after(100)) is not idempotent
    assert last < after(limits().seconds)
