"""An Agent behind its queue carries out what is not idempotent once, however often the request arrives."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from functions.agents import sent_once
from functions.agents.queued import QueuedAgent
from functions.agents.rest import RestAgent
from functions.pattern.agent_messages import AgentReply
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError, UnusableAnswerError
from functions.pattern.ports import AgentCall
from tests.fakes.agents import raising
from tests.fakes.ports import fake_ports
from tests.fakes.remote_service import Answer, RemoteServiceFake
from tests.fakes.tasks import after
from tests.unit.agents.test_queued import DONE, ECHO, REQUEST, Bench
from tests.unit.conftest import MakeRemote

ONCE = REQUEST | {"idempotent": False}


@pytest.fixture
def bench() -> Bench:
    """Make a bench."""
    return Bench()


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
    agent = QueuedAgent("payment", hanging, _ports(bench), function_timeout=300)
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
    monkeypatch.setattr(sent_once, "_PATIENCE", 0)
    bench.requests.failures = 1
    with pytest.raises(TransientError):
        await _deliver(bench)
    assert bench.script.calls == []


async def test_reply_is_sent_when_it_cannot_be_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known is not kept back."""
    monkeypatch.setattr(sent_once, "_PATIENCE", 0)

    def cut_off() -> Json:
        bench.requests.failures = 1
        return DONE

    bench.script.behaviour = cut_off
    await _deliver(bench)
    assert bench.replies.sent == [_done()]


@pytest.mark.parametrize("fault", [Answer(504), Answer(hangs_up=True)], ids=["504", "hangs up"])
async def test_service_that_does_it_and_fails_gets_one_call(
    fault: Answer, bench: Bench, service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """Over the queue too, and also when the request comes again."""
    service.answers = [fault, Answer()]
    agent = QueuedAgent("payment", RestAgent(make_remote()), _ports(bench), function_timeout=300)
    for _ in range(2):
        await agent.take("m-1", json.dumps(ONCE).encode())
    assert (len(service.received), bench.replies.sent) == (1, [])


def _ports(bench: Bench) -> Any:
    return fake_ports(clock=bench.clock, agent_messages=bench.replies, agent_requests=bench.requests)


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
