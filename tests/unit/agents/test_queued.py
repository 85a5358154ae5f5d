"""An Agent behind its queue: it replies with the outcome of its request, or sends no reply."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import azure.durable_functions as df
import pytest

from functions.agents.blueprint import queued_agents_blueprint
from functions.agents.queued import QueuedAgent
from functions.messages.reading import NotAMessageError
from functions.pattern.agent_messages import AgentReply
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.identity import EffectKey, TaskId
from functions.pattern.ports import AgentCall
from tests.fakes.agent_requests import OneWayAgent
from tests.fakes.agents import ScriptedAgent, raising
from tests.fakes.messages import received
from tests.fakes.ports import fake_ports
from tests.fakes.tasks import after
from tests.unit.agents.conftest import DONE, ECHO, REQUEST, Bench


async def test_request_is_carried_out_and_its_reply_echoes_it(bench: Bench) -> None:
    """The remote service gets the effect key and the deadline."""
    bench.script.behaviour = lambda: {"paid": True}
    await bench.take()
    assert bench.script.calls == [
        AgentCall(
            task=TaskId("task-1"),
            effect_key=EffectKey("task-1/payment/do"),
            request={"amount": "9.80"},
            complete_by=after(10),
        )
    ]
    assert bench.replies.sent == [AgentReply(**ECHO, outcome="completed", result={"paid": True})]


async def test_undo_is_carried_out(bench: Bench) -> None:
    """With what the do gave; its reply has no result."""
    await bench.take(direction="undo", effect_key="task-1/payment/undo", result={"payment": "P-1"})
    assert [call.result for call in bench.script.calls] == [{"payment": "P-1"}]
    assert bench.replies.sent == [AgentReply(**ECHO, outcome="completed")]


async def test_refusal_is_replied_with_its_reason(bench: Bench) -> None:
    """However long the reason is."""
    bench.script.behaviour = raising(PermanentError("no money " * 500))
    await bench.take()
    [reply] = bench.replies.sent
    assert (reply.outcome, len(reply.error)) == ("failed", 1_000)


async def test_undo_by_an_agent_that_cannot_is_refused() -> None:
    """It is a defect of the definition, told to the operator."""
    bench = Bench(OneWayAgent())
    await bench.take(direction="undo")
    assert [reply.error for reply in bench.replies.sent] == ["its Agent can't undo"]


async def test_transient_fault_gets_no_reply(bench: Bench) -> None:
    """Late work is silent: the Supervisor finds the step by its complete-by."""
    bench.script.behaviour = raising(TransientError("no answer"))
    await bench.take()
    assert bench.replies.sent == []


async def test_call_ends_before_its_function_does_and_the_request_comes_again(bench: Bench) -> None:
    """The step has a day, but the host ends the function after five minutes."""
    bench.script.behaviour = bench.until_its_call_ends
    with pytest.raises(TransientError):
        await bench.take(complete_by=after(86_400).isoformat())
    bench.script.behaviour = lambda: DONE
    await bench.take(complete_by=after(86_400).isoformat())
    assert [call.complete_by for call in bench.script.calls] == [after(270), after(540)]
    assert [reply.outcome for reply in bench.replies.sent] == ["completed"]


async def test_call_has_its_time_from_its_begin(bench: Bench) -> None:
    """However long the request may wait besides; never past complete-by."""
    bench.clock.advance(20)
    await bench.take(complete_by=after(310).isoformat(), complete_within=10)
    await bench.take(complete_by=after(30).isoformat(), complete_within=10)
    assert [call.complete_by for call in bench.script.calls] == [after(30), after(30)]
    assert [call.complete_within for call in bench.script.calls] == [10, 10]
    assert [reply.outcome for reply in bench.replies.sent] == ["completed"] * 2


@pytest.mark.parametrize("direction", ["do", "undo"])
async def test_request_that_waited_too_long_is_not_begun_and_its_reply_says_so(
    bench: Bench, direction: str
) -> None:
    """With less than its own time left; with none at all, it is late, and nobody waits for a reply."""
    waited = {"complete_within": 10, "direction": direction}
    await bench.take(complete_by=after(9.9).isoformat(), **waited)
    await bench.take(complete_by=after(-1).isoformat(), **waited)
    assert bench.script.calls == []
    assert bench.replies.sent == [AgentReply(**ECHO, outcome="not_taken")]


async def test_request_without_complete_within_is_begun_however_little_time_is_left(bench: Bench) -> None:
    """It has until complete-by."""
    await bench.take(complete_by=after(0.1).isoformat())
    assert [call.complete_by for call in bench.script.calls] == [after(0.1)]


async def test_call_that_had_its_time_is_not_made_again(bench: Bench) -> None:
    """What is left until complete-by was for the wait on the queue."""
    bench.script.behaviour = bench.until_its_call_ends
    await bench.take(complete_by=after(310).isoformat(), complete_within=10)
    assert (len(bench.script.calls), bench.replies.sent) == (1, [])


@pytest.mark.parametrize(("function_timeout", "patience"), [(300, 285), (30, 22.5)])
def test_request_is_tried_until_shortly_before_the_host_ends_its_function(
    function_timeout: float, patience: float
) -> None:
    """There is time between the end of a call and this, and between this and the end."""
    agent = QueuedAgent("payment", ScriptedAgent(), fake_ports(), function_timeout=function_timeout)
    assert agent.patience == patience


async def test_late_request_is_not_carried_out(bench: Bench) -> None:
    """Not even when the queue still delivers it."""
    bench.clock.advance(10)
    await bench.take()
    assert (bench.script.calls, bench.replies.sent) == ([], [])


async def test_what_was_done_too_late_is_not_replied(bench: Bench) -> None:
    """Its reply would count for nothing."""

    def slowly() -> Json:
        bench.clock.advance(11)
        return {}

    bench.script.behaviour = slowly
    await bench.take()
    assert (len(bench.script.calls), bench.replies.sent) == (1, [])


async def test_reply_that_cannot_be_sent_brings_the_request_again(bench: Bench) -> None:
    """The remote service knows the effect key, so that doing it again is harmless."""
    bench.replies.failing = True
    with pytest.raises(TransientError):
        await bench.take()


async def test_field_that_the_agent_does_not_know_is_ignored(bench: Bench) -> None:
    """A request may gain some within its version."""
    await bench.take(more=1)
    assert (len(bench.script.calls), len(bench.replies.sent)) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token": "short"}, "token: String should have at least 16 characters"),
        (
            {"complete_by": "2026-11-21T10:00:00"},
            "complete_by: must be a time such as 2026-11-21T12:00:00Z, of the years 2000 to 8999",
        ),
        ({"direction": "sideways"}, "direction: Input should be 'do' or 'undo'"),
        ({"epoch": "1"}, "epoch: Input should be a valid integer"),
        ({"schema_version": 2}, "schema_version: Input should be less than or equal to 1"),
        ({"request": {"amount": float("nan")}}, "not a finite number"),
    ],
    ids=["token", "time without a zone", "direction", "number as text", "newer schema", "NaN"],
)
async def test_message_that_is_no_request_is_left_to_service_bus(
    bench: Bench, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], reason: str
) -> None:
    """Service Bus dead-letters it after its last delivery; the log names the fault, and nothing is done."""
    with pytest.raises(NotAMessageError):
        await bench.take(**changes)
    assert caplog.messages == [f"agent-payment-requests: message m-1 can't be read: {reason}"]
    assert bench.script.calls == []


_LATER = REQUEST | {"complete_by": after(600).isoformat(), "of_a_later_version": 1}


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Make an Agent whose service allows one call at a time, and that waits 50 ms for its slot."""
    monkeypatch.setattr("functions.agents.queued.PLACE_SECONDS", 0.05)
    return Bench(at_once=1)


async def test_request_without_a_place_is_sent_again_for_later(limited: Bench) -> None:
    """As it came, with what a later version has added, under another id; nobody is called."""
    await limited.occupied()
    body = json.dumps(_LATER).encode()
    await limited.agent.take("m-1", body)
    [(queue, message_id, content, not_before)] = limited.queue.put_back
    assert (queue, content.body) == ("agent-payment-requests", body)
    assert message_id.startswith("task-1.2.payment.")
    assert not_before is not None
    assert after(1) < not_before <= after(60)
    assert (limited.script.calls, limited.replies.sent) == ([], [])


async def test_request_with_the_longest_names_is_sent_again(limited: Bench) -> None:
    """Ids hold 128 characters (Service Bus): on a longer one, the client fails with a whole batch."""
    longest = {"task_id": "t" * 64, "epoch": 1_000_000, "step": "s" * 32, "item": 89, "dispatch": 10}
    await limited.occupied()
    for _ in range(2):
        await limited.agent.take("m-1", json.dumps(_LATER | longest).encode())
    first, second = (message_id for _, message_id, _, _ in limited.queue.put_back)
    assert max(len(first), len(second)) <= 128
    assert first != second


@pytest.mark.parametrize("idempotent", [True, False])
async def test_request_that_finds_a_place_is_carried_out(limited: Bench, *, idempotent: bool) -> None:
    """The place is free for the next one, even while its reply can't be sent."""
    body = json.dumps(_LATER | {"idempotent": idempotent}).encode()
    await limited.agent.take("m-1", body)
    assert (len(limited.script.calls), len(limited.replies.sent)) == (1, 1)
    async with asyncio.timeout(5):
        await limited.occupied()


async def test_request_that_must_not_be_repeated_is_not_begun_without_a_place(limited: Bench) -> None:
    """It can be carried out when it comes again."""
    place = await limited.occupied()
    body = json.dumps(_LATER | {"idempotent": False}).encode()
    await limited.agent.take("m-1", body)
    place.release()
    await limited.agent.take("m-2", body)
    assert (len(limited.script.calls), len(limited.replies.sent)) == (1, 1)


async def test_late_request_needs_no_place(limited: Bench) -> None:
    """It is not called; nor is one sent again that would come later than that."""
    await limited.occupied()
    await limited.agent.take("m-1", json.dumps(REQUEST | {"complete_by": after(0.5).isoformat()}).encode())
    assert [not_before for *_, not_before in limited.queue.put_back] == [after(0.5)]
    limited.clock.advance(1)
    await limited.agent.take("m-2", json.dumps(REQUEST | {"complete_by": after(0.5).isoformat()}).encode())
    assert len(limited.queue.put_back) == 1
    assert limited.script.calls == []


async def test_place_is_free_after_a_defect(limited: Bench) -> None:
    """Whatever the Agent raises."""
    limited.script.behaviour = raising(RuntimeError("defect"))
    with pytest.raises(RuntimeError):
        await limited.agent.take("m-1", json.dumps(_LATER).encode())
    async with asyncio.timeout(5):
        await limited.occupied()


class Agent:
    """Fails for a while, or hangs; stands in for one behind a queue."""

    name = "payment"

    def __init__(self, *, patience: float = 285, failures: int = 0, hangs: bool = False) -> None:
        self.patience = patience
        self.calls, self._failures, self._hangs = 0, failures, hangs

    async def take(self, message_id: str, body: bytes) -> None:  # noqa: ARG002 - the Agent's
        """Take a request."""
        self.calls += 1
        if self._hangs:
            await asyncio.sleep(60)
        if self.calls <= self._failures:
            raise TransientError("Service Bus is away")


def _function(agent: Any) -> Any:
    app = df.DFApp()
    app.register_functions(queued_agents_blueprint([agent]))
    [built] = app.get_functions()
    assert built.get_trigger().queue_name == "agent-payment-requests"
    return built.get_user_function()


async def test_request_outlives_an_outage_longer_than_its_first_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host renews it; the lock's 15 s are no bound, and what the Agent lets go at complete-by is done."""
    monkeypatch.setattr("functions.messages.queues._PART_OF_LOCK", 0.0)
    agent = Agent(failures=3)
    await _function(agent)(received())
    assert agent.calls == 4


async def test_request_is_given_back_before_the_host_ends_the_function() -> None:
    """With the process, and everything in it."""
    agent = Agent(patience=0.1, hangs=True)
    with pytest.raises(TransientError, match=r"not done within 0\.1 s"):
        await _function(agent)(received())


@pytest.mark.parametrize(("agents", "named"), [([Agent()], "payment"), ([], "none")])
def test_agents_that_are_served_here_are_named_at_start(
    caplog: pytest.LogCaptureFixture, agents: list[Any], named: str
) -> None:
    """With another ledger elsewhere, one queue would have two."""
    caplog.set_level(logging.INFO)
    queued_agents_blueprint(agents)
    assert f"Agents behind queues that are served here: {named}" in caplog.messages
