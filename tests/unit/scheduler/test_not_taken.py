"""Requests may wait for their Agent; those that waited too long are sent again by the same epoch."""

from __future__ import annotations

import pytest

from functions.pattern.agent_messages import not_taken
from functions.pattern.definition import Workflow
from functions.pattern.errors import UnwritableError
from functions.pattern.events import Event, StepNotTaken
from functions.pattern.identity import StepName, TaskId
from functions.pattern.states import Way
from functions.scheduler.takers import ReplyTaker
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.tasks import FIRST, after
from tests.fakes.times import MemoryTimes, RecordedRefusals
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.bench import Bench, going_on
from tests.unit.scheduler.replay import Instance

PICK = StepName("pick")
QUEUED = workflow(step("pick", via=Way.QUEUE), step("send", "pick"), name="queued")
_WAIT = 60
SECOND_TIME = {"dispatches": {"pick": 2}}

#: As in `test_orchestrator.py`.
pytestmark = pytest.mark.filterwarnings("ignore:azure.functions df_loads was called:DeprecationWarning")


class Queues(Bench):
    """A task whose request may wait a minute, and who takes the Agent's replies."""

    def __init__(self, of: Workflow = QUEUED) -> None:
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


async def test_activity_has_no_such_wait() -> None:
    """It is called as soon as it is recorded."""
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


def test_reply_that_comes_before_its_run_is_back_is_heard() -> None:
    """The Agent was quicker than the run that asked it came back."""
    instance = _dispatched_again()
    assert instance.reply("reply:pick:1:2", runs=1) == [3]
    assert instance.end(2, awaited={"pick": IN_TWO}, **SECOND_TIME) == []
    instance.end(3, state="Processed", over=True)
    assert instance.output == "Processed"


def test_run_that_dispatched_it_may_be_heard_of_before_the_reply() -> None:
    """Another run found the step ready first: what wakes for the first dispatch is no surprise."""
    instance = Instance(queued=("pick",))
    instance.begin()
    instance.end(1, awaited={"pick": IN_TWO}, **SECOND_TIME)
    assert instance.reply("reply:pick:1:1", runs=1, **SECOND_TIME) == [2]
    instance.end(2)
    assert instance.output is None
    instance.reply("reply:pick:1:2", state="Processed", over=True)
    assert instance.output == "Processed"
