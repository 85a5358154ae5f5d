"""An Agent behind its queue: requests, replies, and requests that must not be repeated."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from functions.agents.agent_call import (
    Call,
    LookUpAnswer,
    NotBegunError,
    RefusedError,
    UnusableResultError,
)
from functions.agents.queue_agent import QueueAgent, UnfinishedCallError
from functions.core.record import Direction
from functions.messaging.agent_messages import AgentReply, Finding
from functions.messaging.message_format import MessageError
from functions.messaging.request_ledger import RequestLedger
from functions.messaging.senders import SendError
from functions.storage.gates import CallLimits, Gates
from functions.storage.table_contract import CorruptRowError, TransientStorageError
from tests.fakes.simulated_table import SimulatedTable, TableFault
from tests.fakes.storage_process import StorageProcess, new_id, virtual_now
from tests.unit.scheduler.steps import answering, raising

SECRET = "start-id-of-this-request"
ECHO: dict[str, Any] = {
    "schema_version": 1,
    "task_id": "task-1",
    "step": "payment",
    "direction": "do",
    "epoch": 2,
    "start_id": SECRET,
}
LIMIT = 60
each_kind = pytest.mark.parametrize("idempotent", [True, False], ids=["repeatable", "once"])


@dataclass
class Script:
    """An Agent whose behaviour a test sets."""

    fences_starts: bool = False
    calls: list[Call] = field(default_factory=list)
    behaviour: Callable[[Call], Awaitable[str]] | None = None
    found: LookUpAnswer | Exception = field(default_factory=lambda: LookUpAnswer(Finding.UNKNOWN))

    async def carry_out(self, call: Call) -> str:
        """Record the call."""
        self.calls.append(call)
        return '{"paid":true}' if self.behaviour is None else await self.behaviour(call)

    async def find(self, call: Call) -> LookUpAnswer:
        """Return what the test has set."""
        assert call.effect_key
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


_hang = answering("{}", seconds=86_400)


class Bench:
    """An Agent behind its queue, its table, and its replies."""

    def __init__(self) -> None:
        self.script, self.table = Script(), SimulatedTable()
        self.replies: list[AgentReply] = []
        self.send_failures = 0
        self.limits = CallLimits({}, virtual_now)
        self.now = virtual_now

    async def _send(self, reply: AgentReply) -> None:
        if self.send_failures:
            self.send_failures -= 1
            raise SendError("queue agent-replies: ServiceBusConnectionError")
        self.replies.append(reply)

    async def take(self, *, within: float = LIMIT, **changes: Any) -> None:
        """Deliver a request with a deadline in `within` seconds."""
        fields: dict[str, Any] = {
            **ECHO,
            "effect_key": "task-1.0a1b2c3d/payment/do",
            "complete_by": (virtual_now() + timedelta(seconds=within)).isoformat(),
            "idempotent": True,
            "request": {"amount": "9.80"},
            "result": None,
        }
        await self.deliver(json.dumps(fields | changes).encode())

    async def deliver(self, body: bytes) -> None:
        """Deliver a message."""
        agent = QueueAgent(
            name="payment",
            agent=self.script,
            ledger=RequestLedger(self.table, self.now),
            send_reply=self._send,
            now=self.now,
            new_id=new_id,
            function_seconds=300,
            limits=self.limits,
        )
        await agent.take("m-1", body)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Return the rows of requests."""
        return [row for row in self.table.rows.values() if "Delivery" in row]

    @property
    def outcomes(self) -> list[str]:
        """Return the outcomes of the replies."""
        return [str(reply.outcome) for reply in self.replies]


@pytest.fixture
def bench() -> Bench:
    """Make a bench."""
    return Bench()


# Requests and replies


@each_kind
async def test_request_is_carried_out_and_its_reply_echoes_it(bench: Bench, *, idempotent: bool) -> None:
    """The Agent gets the effect key and the deadline. A field of a later version is ignored."""
    await bench.take(idempotent=idempotent, more=1)
    [call] = bench.script.calls
    assert (call.effect_key, call.request) == ("task-1.0a1b2c3d/payment/do", '{"amount":"9.80"}')
    assert (call.idempotent, call.start_id, call.direction) == (idempotent, SECRET, Direction.DO)
    assert timedelta(seconds=59) < call.complete_by - virtual_now() <= timedelta(seconds=LIMIT)
    assert bench.replies == [
        AgentReply.model_validate_json(json.dumps({**ECHO, "outcome": "done", "result": {"paid": True}}))
    ]
    assert SECRET not in str(bench.table.rows)  # the key is a digest of the start id
    assert [(row["Task"], row["Step"], row["Epoch"]) for row in bench.requests] == [
        ("task-1", "payment", 2) for _ in range(not idempotent)
    ]


async def test_undo_has_the_result_of_the_do(bench: Bench) -> None:
    """Its reply has no result."""
    await bench.take(direction="undo", result={"payment": "P-1"})
    assert [call.do_result for call in bench.script.calls] == ['{"payment":"P-1"}']
    assert [(reply.outcome, reply.result) for reply in bench.replies] == [("done", None)]


@each_kind
@pytest.mark.parametrize(
    ("error", "outcome", "text"),
    [
        (RefusedError("no money " * 500), "refused", "no money "),
        (NotBegunError("refused connection"), "not_taken", "refused connection"),
        (UnusableResultError("no JSON"), "done", "no JSON"),
        (UnusableResultError(""), "done", "no reason is known"),
        (KeyError("reference"), "unknown", "KeyError: 'reference'"),
    ],
)
async def test_each_outcome_has_its_reply(
    error: Exception, outcome: str, text: str, bench: Bench, *, idempotent: bool
) -> None:
    """A request that must not be repeated is sent once, and a second delivery has the same reply."""
    bench.script.behaviour = raising(error)
    for _ in range(2):
        await bench.take(idempotent=idempotent)
    assert len(bench.script.calls) == (2 if idempotent else 1)
    assert bench.outcomes == [outcome] * 2
    assert all((reply.no_result or reply.error).startswith(text) for reply in bench.replies)


@each_kind
async def test_late_request_is_not_begun_and_its_reply_says_so(bench: Bench, *, idempotent: bool) -> None:
    """No delivery begins it afterwards, also by a clock that is behind: one write records the reply."""
    await bench.take(within=-0.1, idempotent=idempotent)
    assert len(bench.table.transactions) == (0 if idempotent else 1)
    if not idempotent:
        await bench.take(idempotent=False)
    assert bench.script.calls == []
    assert set(bench.outcomes) == {"not_taken"}


async def test_payment_is_never_called_not_taken_when_the_ledger_may_have_forgotten_it(bench: Bench) -> None:
    """An operator resends its dead letter after weeks. `RETENTION_DAYS` is at least a day."""
    await bench.take(within=-86_401, idempotent=False)
    assert (bench.script.calls, bench.outcomes) == ([], ["unknown"])


async def test_late_outcome_of_a_repeatable_request_is_not_replied(bench: Bench) -> None:
    """It would not count."""
    bench.script.behaviour = _hang
    await bench.take()
    assert (len(bench.script.calls), bench.replies) == (1, [])


async def test_call_ends_before_its_function_and_the_request_is_delivered_again(bench: Bench) -> None:
    """The step has a day, but the host ends the function after five minutes."""
    bench.script.behaviour = _hang
    with pytest.raises(UnfinishedCallError):
        await bench.take(within=86_400)
    assert virtual_now() - bench.script.calls[0].complete_by < timedelta(seconds=1)
    await bench.take(within=86_400, idempotent=False)
    assert bench.outcomes == ["unknown"]


@each_kind
async def test_reply_that_cannot_be_sent_has_the_request_delivered_again(
    bench: Bench, *, idempotent: bool
) -> None:
    """The service knows the effect key; otherwise the recorded reply is sent."""
    bench.send_failures = 1
    with pytest.raises(SendError):
        await bench.take(idempotent=idempotent)
    await bench.take(idempotent=idempotent)
    assert (len(bench.script.calls), bench.outcomes) == (1 + idempotent, ["done"])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"start_id": "canary"}, "start_id"),
        ({"epoch": "1"}, "epoch"),
        ({"schema_version": 2}, "schema_version"),
    ],
)
async def test_message_that_is_no_request_is_named(
    changes: dict[str, Any], field: str, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the field and no value."""
    with pytest.raises(MessageError):
        await bench.take(**changes)
    assert caplog.messages[0].startswith("agent-payment-requests: message m-1 is no request: ")
    assert f"{field}: " in caplog.messages[0]
    assert "canary" not in caplog.text
    assert bench.script.calls == []


# Requests that must not be repeated


async def test_request_with_another_start_id_is_another_one(bench: Bench) -> None:
    """An operator has decided that the first was not done."""
    await bench.take(idempotent=False)
    await bench.take(idempotent=False, start_id="start-id-of-the-next-request", epoch=3)
    assert [reply.epoch for reply in bench.replies] == [2, 3]
    assert len(bench.script.calls) == 2


async def test_late_outcome_is_replied_and_recorded(bench: Bench) -> None:
    """The Scheduler decides what it counts for. A second delivery waits for it while the first one works."""

    async def slowly(_call: Call) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(86_400)
        raise RefusedError("no money")

    bench.script.behaviour = slowly
    await asyncio.gather(*(bench.take(within=60, idempotent=False) for _ in range(2)))
    assert bench.outcomes == ["refused"] * 2
    assert len(bench.script.calls) == 1


@pytest.mark.parametrize("within", [LIMIT, -1], ids=["in time", "late"])
async def test_delivery_after_a_crash_replies_unknown(
    within: float, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The earlier delivery may have called the service, which is not called again. It is dead."""
    bench.script.behaviour = _hang
    dying = asyncio.create_task(bench.take(within=3600, idempotent=False))
    await asyncio.sleep(1)
    dying.cancel()
    await asyncio.wait([dying])
    caplog.set_level(logging.WARNING)
    began_at = virtual_now()
    await bench.take(within=within, idempotent=False)
    assert (virtual_now() - began_at).total_seconds() == pytest.approx(20, abs=2)
    assert len(bench.script.calls) == 1
    assert bench.outcomes == ["unknown"]
    assert "task task-1 step payment: begun by an earlier delivery" in caplog.text


@pytest.mark.parametrize("error", [TypeError, TransientStorageError])
async def test_nothing_is_begun_without_a_record(
    error: type[Exception], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is delivered again. A defect fails immediately, so that it is seen."""

    async def fail(*_: object) -> None:
        raise error("not written")

    monkeypatch.setattr(bench.table, "send", fail)
    began_at = virtual_now()
    with pytest.raises(error):
        await bench.take(idempotent=False)
    assert (bench.script.calls, bench.replies) == ([], [])
    assert (virtual_now() == began_at) is (error is TypeError)


@pytest.mark.parametrize("fault", [TableFault.NO_ANSWER, TableFault.REPEATED, TableFault.NOT_SENT])
async def test_own_beginning_is_known_after_a_fault_of_the_table(fault: TableFault, bench: Bench) -> None:
    """Otherwise the request would never be carried out."""
    bench.table.fail_next(fault)
    await bench.take(idempotent=False)
    assert (len(bench.script.calls), bench.outcomes) == (1, ["done"])


async def test_request_whose_beginning_outlasts_its_deadline_is_not_sent(bench: Bench) -> None:
    """It is recorded as not taken, so that an operator's question is not needed."""
    bench.table.seconds = 6
    for _ in range(2):
        await bench.take(within=5, idempotent=False)
    assert (bench.script.calls, bench.outcomes) == ([], ["not_taken"] * 2)


async def test_reply_that_cannot_be_recorded_is_sent(bench: Bench) -> None:
    """The outcome is known, and no other delivery knows it."""

    async def cut_off(_call: Call) -> str:
        bench.table.fault = lambda: TableFault.NOT_SENT
        bench.send_failures = 2
        return "{}"

    bench.script.behaviour = cut_off
    await bench.take(idempotent=False)
    assert bench.outcomes == ["done"]


async def test_old_requests_are_deleted(bench: Bench) -> None:
    """By the day of their deadlines."""
    for number in range(20):
        await bench.take(idempotent=False, start_id=f"{number:032x}")
    today = virtual_now() + timedelta(seconds=LIMIT)
    ledger = RequestLedger(bench.table, virtual_now)
    assert await ledger.delete_before(today, 100) == 0
    tomorrow = today + timedelta(days=1)
    deleted = [await ledger.delete_before(tomorrow, 15) for _ in range(3)]
    assert deleted == [15, 5, 0]
    assert not bench.table.rows


async def test_largest_result_is_recorded(bench: Bench) -> None:
    """60,000 bytes in UTF-16, with a reply around it."""

    async def answer(_call: Call) -> str:
        return json.dumps({"note": "文" * 29_900}, ensure_ascii=False)

    bench.script.behaviour = answer
    for _ in range(2):
        await bench.take(idempotent=False, task_id="t" * 64)
    assert bench.replies[0] == bench.replies[1]
    assert bench.outcomes == ["done"] * 2


@pytest.mark.parametrize("reply", ["{", "[]", '{"outcome":"maybe"}'])
async def test_corrupt_row_is_no_reply(reply: str, bench: Bench) -> None:
    """And does not count as "not begun"."""
    await bench.take(idempotent=False)
    [row] = bench.requests
    row["Reply"] = reply
    with pytest.raises(CorruptRowError):
        await bench.take(idempotent=False)
    assert len(bench.script.calls) == 1


# Look-ups


@pytest.mark.parametrize(
    ("found", "fences_starts", "reply"),
    [
        (LookUpAnswer(Finding.DONE, '{"paid":true}'), False, {"outcome": "done", "result": {"paid": True}}),
        (LookUpAnswer(Finding.NOT_DONE), True, {"outcome": "not_done", "fences_starts": True}),
        (LookUpAnswer(Finding.NOT_DONE), False, {"outcome": "unknown", "error": "not done"}),
        (LookUpAnswer(Finding.UNKNOWN), True, {"outcome": "unknown", "error": "unknown"}),
        (KeyError("id"), True, {"outcome": "unknown", "error": "KeyError: 'id'"}),
    ],
)
async def test_look_up_is_replied_and_changes_nothing(
    found: LookUpAnswer | Exception,
    fences_starts: bool,  # noqa: FBT001 - a table
    reply: dict[str, Any],
    bench: Bench,
) -> None:
    """Its request needs no record, since it may be repeated."""
    bench.script.found, bench.script.fences_starts = found, fences_starts
    await bench.take(kind="find", idempotent=False)
    body = json.dumps({**ECHO, "kind": "find", **reply})
    assert bench.replies == [AgentReply.model_validate_json(body)]
    assert (bench.script.calls, bench.table.rows) == ([], {})


# The limit of the gate


@pytest.fixture(params=["operator", "settings"])
async def limited(bench: Bench, request: pytest.FixtureRequest) -> Bench:
    """Limit the calls of the instance to one, by an operator or by the settings."""

    async def schedule(*_: object) -> None:
        """Send nothing."""

    process = StorageProcess(SimulatedTable())
    by_operator = request.param == "operator"
    bench.limits = gates = Gates(
        process.storage,
        settings=process.settings,
        now=virtual_now,
        schedule_release=schedule,
        calls_at_once={"queue:payment": 9 if by_operator else 1},
    )
    if by_operator:
        await gates.set_calls_at_once("queue:payment", 1)
    return bench


@each_kind
async def test_calls_of_an_instance_are_limited(limited: Bench, *, idempotent: bool) -> None:
    """A request waits for half of its time, and then is not taken; the slot is free after each outcome."""
    limited.script.behaviour = _hang
    hanging = asyncio.create_task(limited.take(within=100, idempotent=idempotent))
    await asyncio.sleep(1)
    limited.script.behaviour = raising(KeyError("a defect"))
    await limited.take(within=10, idempotent=idempotent, start_id="start-id-of-the-second")
    assert (len(limited.script.calls), limited.outcomes) == (1, ["not_taken"])
    await hanging
    for number in range(2):
        await limited.take(idempotent=idempotent, start_id=f"start-id-of-another-{number}")
    assert len(limited.script.calls) == 3
