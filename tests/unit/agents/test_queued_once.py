"""An Agent behind its queue carries out a request that must not be repeated once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from functions.agents import sent_once
from functions.agents.queued import QueuedAgent
from functions.agents.tries import Tries
from functions.messages import queues
from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.agent_requests import Begun
from functions.pattern.decisions import in_question
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError, UnusableAnswerError
from functions.pattern.events import Event
from functions.pattern.identity import StartId, StepName, TaskId, start_of
from functions.pattern.ports import AgentCall
from functions.pattern.states import StepState, Way
from functions.pattern.texts import cause_of
from tests.fakes.agent_requests import MemoryAgentRequests
from tests.fakes.agents import ScriptedAgent, raising
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import giving_up
from tests.fakes.ports import fake_ports
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, after, claimed, pending, started, told
from tests.fakes.workflows import LINE, TASK, each, step, workflow
from tests.unit.agents.conftest import DONE, ECHO, REQUEST, Bench
from tests.unit.scheduler.bench import Bench as SchedulerBench

ONCE = REQUEST | {"idempotent": False}


async def _deliver(bench: Bench, **changes: Any) -> None:
    await bench.take(**{"idempotent": False, **changes})


def _done(result: Mapping[str, Any] = DONE) -> AgentReply:
    return AgentReply(**ECHO, outcome="completed", result=dict(result))


async def test_request_that_comes_twice_is_carried_out_once(bench: Bench) -> None:
    """Its reply is sent each time."""
    for _ in range(3):
        await _deliver(bench)
    assert [call.idempotent for call in bench.script.calls] == [False]
    assert bench.replies.sent == [_done()] * 3


async def test_request_of_another_token_is_another(bench: Bench) -> None:
    """An operator has said that the first one was not done."""
    await _deliver(bench)
    await _deliver(bench, token="token-of-the-request-after", epoch=3)
    assert len(bench.script.calls) == 2
    assert [reply.epoch for reply in bench.replies.sent] == [2, 3]


async def test_refusal_is_recorded_too(bench: Bench) -> None:
    """It is a known outcome: it was not done."""
    bench.script.behaviour = raising(PermanentError("no money"))
    for _ in range(2):
        await _deliver(bench)
    assert len(bench.script.calls) == 1
    assert [(reply.outcome, reply.error) for reply in bench.replies.sent] == [("failed", "no money")] * 2


async def test_what_was_done_late_is_replied(bench: Bench) -> None:
    """The Scheduler decides what a late outcome counts for; a later delivery replies it again."""

    def slowly() -> Json:
        bench.clock.advance(11)
        return DONE

    bench.script.behaviour = slowly
    for _ in range(2):
        await _deliver(bench)
    assert len(bench.script.calls) == 1
    assert bench.replies.sent == [_done()] * 2


async def test_late_request_is_not_begun(bench: Bench) -> None:
    """Neither is it recorded as if it were."""
    bench.clock.advance(10)
    await _deliver(bench)
    assert (bench.script.calls, bench.replies.sent, bench.requests.begun) == ([], [], {})


async def test_request_that_waited_too_long_is_never_begun(bench: Bench) -> None:
    """It is on record: no delivery calls the service, though its clock be behind; each says the same."""
    waited = {"complete_within": 20, "complete_by": after(25).isoformat()}
    bench.clock.advance(6)
    await _deliver(bench, **waited)
    bench.clock.advance(-4)
    await _deliver(bench, **waited)
    bench.clock.advance(30)
    await _deliver(bench, **waited)
    assert bench.script.calls == []
    assert bench.replies.sent == [AgentReply(**ECHO, outcome="not_taken")] * 3


@pytest.mark.parametrize("outcome", [DONE, TransientError("no answer")], ids=["known", "unknown"])
async def test_what_was_begun_is_never_told_not_to_be_taken(
    bench: Bench, outcome: Json | TransientError
) -> None:
    """It has its own outcome, or none, however little time is left when it comes again."""
    waited = {"complete_within": 20, "complete_by": after(25).isoformat()}
    bench.script.behaviour = raising(outcome) if isinstance(outcome, Exception) else lambda: outcome
    await _deliver(bench, **waited)
    bench.clock.advance(10)
    await _deliver(bench, **waited)
    assert len(bench.script.calls) == 1
    assert bench.replies.sent == ([] if isinstance(outcome, Exception) else [_done()] * 2)


@pytest.mark.parametrize(
    ("reason", "said"), [("no JSON", "no JSON"), ("", "no reason is known")], ids=["reason", "none"]
)
async def test_what_was_done_without_a_result_is_said(bench: Bench, reason: str, said: str) -> None:
    """Not `failed`, for it was done; the Scheduler has the task held, also where nothing is said of it."""
    bench.script.behaviour = raising(UnusableAnswerError(reason))
    for _ in range(2):
        await _deliver(bench)
    assert len(bench.script.calls) == 1
    assert [(reply.outcome, reply.no_result) for reply in bench.replies.sent] == [("completed", said)] * 2


async def test_unknown_outcome_stays_unknown(bench: Bench) -> None:
    """No second delivery calls the service; neither replies, not even `failed`, which would repeat it."""
    bench.script.behaviour = raising(TransientError("no answer"))
    await _deliver(bench)
    bench.script.behaviour = lambda: DONE
    await _deliver(bench)
    assert (len(bench.script.calls), bench.replies.sent) == (1, [])


@pytest.mark.parametrize("late", [False, True])
async def test_agent_that_dies_at_work_is_not_called_again(
    bench: Bench, caplog: pytest.LogCaptureFixture, *, late: bool
) -> None:
    """The next delivery finds it begun, says so in the log, and completes the message."""
    hanging = _HangingAgent()
    agent = QueuedAgent("payment", hanging, bench.ports, function_timeout=300)
    dying = asyncio.create_task(agent.take("m-1", json.dumps(ONCE).encode()))
    await hanging.called.wait()
    dying.cancel()
    await asyncio.wait([dying])
    bench.clock.advance(60 if late else 1)
    with caplog.at_level(logging.WARNING):
        await _deliver(bench)
    assert (bench.script.calls, bench.replies.sent) == ([], [])
    assert "task task-1 step payment: begun by an earlier delivery, outcome unknown" in caplog.text


async def test_what_takes_longer_than_its_function_has_is_unknown(bench: Bench) -> None:
    """Told as such before the host ends the process; no later delivery calls the service."""
    bench.script.behaviour = bench.until_its_call_ends
    for _ in range(2):
        await _deliver(bench, complete_by=after(86_400).isoformat())
    assert [call.complete_by for call in bench.script.calls] == [after(270)]
    assert bench.replies.sent == []


async def test_defect_in_an_agent_is_not_repeated(bench: Bench) -> None:
    """It may have raised after its call."""
    bench.script.behaviour = raising(KeyError("reference"))
    with pytest.raises(KeyError):
        await _deliver(bench)
    await _deliver(bench)
    assert (len(bench.script.calls), bench.replies.sent) == (1, [])


async def test_reply_that_cannot_be_sent_is_sent_by_the_next_delivery(bench: Bench) -> None:
    """It is on record."""
    bench.replies.failing = True
    with pytest.raises(TransientError):
        await _deliver(bench)
    bench.replies.failing = False
    await _deliver(bench)
    assert (len(bench.script.calls), bench.replies.sent) == (1, [_done()])


async def test_start_whose_write_was_answered_with_a_fault_is_ours(bench: Bench) -> None:
    """It may have been written, and is written again."""
    bench.requests.failures = 1
    await _deliver(bench)
    assert (len(bench.script.calls), bench.replies.sent) == (1, [_done()])


async def test_nothing_is_begun_without_the_record(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is given back."""
    monkeypatch.setattr(sent_once, "_PATIENCE_SECONDS", 0)
    bench.requests.failures = 1
    with pytest.raises(TransientError):
        await _deliver(bench)
    assert bench.script.calls == []


async def test_reply_is_sent_when_it_cannot_be_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known is not kept back."""
    monkeypatch.setattr(sent_once, "_PATIENCE_SECONDS", 0)

    def cut_off() -> Json:
        bench.requests.failures = 1
        return DONE

    bench.script.behaviour = cut_off
    await _deliver(bench)
    assert bench.replies.sent == [_done()]


class _HangingAgent:
    """Is still at work when it dies."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    async def do(self, call: AgentCall) -> Json:
        """Never return."""
        self.called.set()
        await asyncio.Event().wait()
        return call.request


@pytest.mark.parametrize(
    "result",
    [{"at": object()}, {"text": "x" * 300_000}, {"x": float("nan")}, None, 7, "paid"],
    ids=["no JSON", "large", "NaN", "none", "number", "text"],
)
async def test_result_that_no_reply_can_carry_is_told_as_done_without_one(bench: Bench, result: Any) -> None:
    """The operator gives the result; nobody takes the step for not done, or for unknown."""
    bench.script.behaviour = lambda: result
    await _deliver(bench)
    [reply] = bench.replies.sent
    assert (reply.outcome, reply.result) == ("completed", {})
    assert "result" in reply.no_result


async def test_request_whose_begin_outlasts_complete_by_is_not_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store takes up to 30 s; meanwhile the epoch ends, and an operator says "not done"."""
    monkeypatch.setattr(queues, "_FIRST_WAIT_SECONDS", 0)
    bench = Bench()
    begin = bench.requests.begin

    async def slowly(request: AgentRequest, delivery: str, late: AgentReply | None) -> Begun:
        bench.clock.advance(11)
        return await begin(request, delivery, late)

    monkeypatch.setattr(bench.requests, "begin", slowly)
    await bench.take(idempotent=False)
    assert bench.script.calls == []


@pytest.mark.parametrize("wait", [11, 30], ids=["too little time", "none"])
async def test_request_whose_begin_leaves_too_little_time_was_not_taken(
    wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is known, and said, also after complete-by: nobody has to find out what became of it."""
    bench = Bench()
    begin = bench.requests.begin

    async def slowly(request: AgentRequest, delivery: str, late: AgentReply | None) -> Begun:
        assert late is None
        begun = await begin(request, delivery, late)
        bench.clock.advance(wait)
        return begun

    monkeypatch.setattr(bench.requests, "begin", slowly)
    for _ in range(2):
        await bench.take(idempotent=False, complete_by=after(25).isoformat(), complete_within=20)
        bench.clock.advance(20)
    assert bench.script.calls == []
    assert [reply.outcome for reply in bench.replies.sent] == ["not_taken"] * 2


class _Notes(MemoryStateStore):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.noted: list[Event] = []

    async def note(self, task: TaskId, event: Event) -> None:
        """Take the event, and keep it."""
        self.noted.append(event)
        await super().note(task, event)


def _tries(store: MemoryStateStore, clock: FakeClock, start_id: StartId | None) -> Tries:
    pick = StepName("pick")
    return Tries(store.note, clock, task=TASK, epoch=FIRST, step=pick, start_id=start_id)


async def test_attempts_are_noted_from_the_third_on() -> None:
    """And then every ten seconds at most, as long as the step runs; the task stays as it is."""
    clock = FakeClock()
    store = _Notes(clock)
    running = store.put(told(pending(LINE), claimed(), started("pick", complete_by=60))).record
    pick = running.steps[0].name
    tries = _tries(store, clock, running.step(pick).start_id)
    for _ in range(14):
        await tries.failed(TransientError("pick answered 503"))
        clock.advance(1)
    assert len(store.noted) == 2
    noted = store.record(TASK)
    assert (noted.step(pick).attempts, noted.step(pick).error) == (13, "pick answered 503")
    assert noted.task == running.task


async def test_last_fault_stands_on_a_step_that_got_no_outcome() -> None:
    """Of a service, and of an Agent with a defect; a new start begins without it."""
    bench = SchedulerBench(workflow(step("pick"), step("send"), name="two"))
    bench.agents.behaviours["pick"] = raising(TransientError("pick answered 503"))
    bench.agents.behaviours["send"] = raising(KeyError("url"))
    await bench.run()
    assert (bench.step("pick").error, bench.step("pick").attempts) == ("pick answered 503", 1)
    assert bench.step("send").error == "KeyError: 'url'"
    assert bench.step("pick").state is StepState.RUNNING


async def test_fault_of_an_older_start_is_not_taken_for_the_latest_ones() -> None:
    """It may be told long after."""
    clock = FakeClock()
    store = MemoryStateStore(clock)
    running = store.put(told(pending(LINE), claimed(), started("pick", start_id="new"))).record
    pick = running.steps[0].name
    await _tries(store, clock, None).ended(TransientError("old"))
    assert store.record(TASK).step(pick).error is None


@pytest.mark.parametrize("fault", [TransientError("pick answered 504"), KeyError("url")], ids=repr)
async def test_unknown_outcome_over_a_queue_names_its_last_fault(fault: Exception) -> None:
    """The Agent knows the start by its request's token; when the task is held, it stands in the reason."""
    clock, script = FakeClock(), ScriptedAgent()
    store = MemoryStateStore(clock)
    token, of = "token-of-this-request", workflow(step("pick", idempotent=False, via=Way.QUEUE), name="one")
    begun = started("pick", complete_by=60, token=token, start_id=start_of(token))
    store.put(told(pending(of), claimed(), begun))
    ports = fake_ports(clock=clock, agent_requests=MemoryAgentRequests())
    agent = QueuedAgent("pick", script, ports, function_timeout=300, note=store.note)
    script.behaviour = raising(fault)
    request = REQUEST | {"task_id": TASK, "step": "pick", "epoch": 1, "token": token, "idempotent": False}
    with suppress(KeyError):
        await agent.take("m-1", json.dumps(request).encode())
    found = store.record(TASK).step(StepName("pick"))
    assert (found.attempts, found.error) == (1, cause_of(fault))
    held = told(store.record(TASK), giving_up(hold=True), now=after(70))
    assert (in_question(held) or "").endswith(f"it must not run twice ({cause_of(fault)})")


async def test_fault_of_one_item_over_a_queue_stands_on_that_item() -> None:
    """And of a request that its Agent has ended, what was left for it to wait is not waited."""
    clock, script = FakeClock(), ScriptedAgent()
    store = MemoryStateStore(clock)
    token, of = "token-of-this-request", workflow(each("pick", via=Way.QUEUE), name="many")
    begun = started("pick.1", complete_by=60, token=token, start_id=start_of(token))
    store.put(told(pending(of), claimed(), begun))
    agent = QueuedAgent("pick", script, fake_ports(clock=clock), function_timeout=300, note=store.note)
    script.behaviour = raising(TransientError("pick answered 503"))
    request = REQUEST | {"task_id": TASK, "step": "pick", "item": 1, "epoch": 1, "token": token}
    request |= {"complete_by": after(60).isoformat(), "complete_within": 10}
    await agent.take("m-1", json.dumps(request).encode())
    found = store.record(TASK).step(StepName("pick.1"))
    assert (found.attempts, found.error, found.complete_by) == (1, "pick answered 503", after(10))
