"""The document's Agent follows the document's rules; the test stands in for the Scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver, ServiceBusSender

from functions.pattern.agent_messages import AgentReply
from functions.pattern.states import Outcome
from servicebus_local.config import read_config
from servicebus_local.testing import running_broker
from tests.contract.remote_agent import RemoteAgent
from tests.contract.schemas import examples
from tests.house.documents import ROOT

pytestmark = pytest.mark.process

QUEUE = "agent-payment-requests"
_PATIENCE = 30


@dataclass(frozen=True, slots=True)
class Bench:
    """A Scheduler's view of the Agent: its queues, and its ledger, which shows what it did."""

    agent: RemoteAgent
    requests: ServiceBusSender
    replies: ServiceBusReceiver
    dead: ServiceBusReceiver

    def ask(self, task: str, direction: str = "do", **changes: Any) -> dict[str, Any]:
        """Send the document's request, for another task."""
        request: dict[str, Any] = examples()[0][0] | {
            "task_id": task,
            "direction": direction,
            "effect_key": f"{task}/payment/{direction}",
            "complete_by": _in(60),
            **changes,
        }
        return self.send(request)

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request as it is."""
        self.requests.send_messages(ServiceBusMessage(json.dumps(request)))
        return request

    def hear(self, request: dict[str, Any]) -> AgentReply:
        """Receive the next reply, which must be to this request."""
        [message] = self.replies.receive_messages(max_wait_time=_PATIENCE)
        self.replies.complete_message(message)
        reply = AgentReply.model_validate_json(str(message))
        for name in ("schema_version", "task_id", "step", "epoch", "token"):
            assert getattr(reply, name) == request[name]
        return reply


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Run a broker with the project's queues, and the Agent."""
    folder: Path = tmp_path_factory.mktemp("agent")
    with (
        running_broker(read_config(ROOT / "infra" / "queues.json")) as broker,
        ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0) as client,
        client.get_queue_sender(QUEUE) as requests,
        client.get_queue_receiver("agent-replies") as replies,
        client.get_queue_receiver(QUEUE, sub_queue="deadletter") as dead,
        RemoteAgent(folder, broker.connection_string) as agent,
    ):
        yield Bench(agent, requests, replies, dead)


def test_redelivered_request_is_answered_again_and_done_once(bench: Bench) -> None:
    """Also in another attempt, with a new token."""
    first, again = bench.ask("twice"), bench.ask("twice")
    anew = bench.ask("twice", epoch=2, token="another-token-of-the-next-attempt")
    answers = [bench.hear(request) for request in (first, again, anew)]
    assert {answer.outcome for answer in answers} == {Outcome.COMPLETED}
    assert [answer.result for answer in answers] == [{"reference": "twice/payment"}] * 3
    assert bench.agent.payments()["twice/payment"] == "paid"


def test_undo_leaves_a_tombstone(bench: Bench) -> None:
    """Also when it arrives before its do."""
    assert bench.hear(bench.ask("overtaken", "undo")).outcome is Outcome.COMPLETED
    late = bench.hear(bench.ask("overtaken"))
    assert (late.outcome, late.error) == (Outcome.FAILED, "it was undone before it was done")
    assert bench.agent.payments()["overtaken/payment"] == "undone"


def test_what_was_done_is_undone(bench: Bench) -> None:
    """Once, however often it is requested."""
    for direction in ("do", "undo", "undo"):
        assert bench.hear(bench.ask("returned", direction)).outcome is Outcome.COMPLETED
    assert bench.agent.payments()["returned/payment"] == "undone"


def test_refusal_has_its_reason(bench: Bench) -> None:
    """For the operator to read."""
    order = {"customer": "C-1042", "amount": "9.80", "currency": "USD"}
    refusal = bench.hear(bench.ask("dollars", request=order))
    assert (refusal.outcome, refusal.error) == (Outcome.FAILED, "we take euros only")
    assert "dollars/payment" not in bench.agent.payments()


def test_late_request_is_not_answered(bench: Bench) -> None:
    """The next reply is to the next request, and nothing was done."""
    bench.ask("late", complete_by=_in(-1))
    assert bench.hear(bench.ask("in-time")).outcome is Outcome.COMPLETED
    assert "late/payment" not in bench.agent.payments()


def test_known_outcome_of_what_is_sent_once_is_replied_late(bench: Bench) -> None:
    """Again, with the token of each request; what was not begun by then is not begun."""
    first = bench.hear(bench.ask("once", idempotent=False))
    late = bench.ask("once", idempotent=False, complete_by=_in(-1))
    assert bench.hear(late).result == first.result
    bench.ask("never-begun", idempotent=False, complete_by=_in(-1))
    assert bench.hear(bench.ask("next")).outcome is Outcome.COMPLETED
    assert "never-begun/payment" not in bench.agent.payments()


def test_request_of_the_schema_before_is_answered_in_it(bench: Bench) -> None:
    """It lacks `idempotent`."""
    request: dict[str, Any] = examples()[0][0] | {"task_id": "before", "effect_key": "before/payment/do"}
    del request["idempotent"]
    assert bench.hear(bench.send(request | {"schema_version": 1, "complete_by": _in(60)})).schema_version == 1


def test_invalid_request_is_dead_lettered(bench: Bench) -> None:
    """It does not delay other requests."""
    bench.requests.send_messages(ServiceBusMessage("{"))
    bench.ask("newer", schema_version=3)
    assert bench.hear(bench.ask("after-them")).outcome is Outcome.COMPLETED
    dead = [message for _ in range(2) for message in bench.dead.receive_messages(max_wait_time=_PATIENCE)]
    assert [message.dead_letter_reason for message in dead] == ["not a request"] * 2
    assert "newer/payment" not in bench.agent.payments()
