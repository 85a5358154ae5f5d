"""The judge finds nothing in a correct run, and each planted defect; a settled platform has nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from aiohttp import web

from functions.core.record import Direction, FailurePolicy, MessageKind, TaskRecord
from functions.core.task_events import OutcomeKind
from functions.messaging.rejected_messages import RejectedMessage
from functions.storage.table_contract import CorruptRowError, TransientStorageError
from tests.chaos import evidence
from tests.chaos.callers import Callers
from tests.chaos.evidence import Tables, settle
from tests.chaos.judge import Judge, Outcome
from tests.chaos.plan import InjectedFault, make_plan
from tests.chaos.remotes import Remotes
from tests.fakes.web_server import served
from tests.local.platform.processes import PATIENCE
from tests.simulation.services import Effect
from tests.unit.core.builders import DUE, after, cancel, new, payment, run, spec, start

_TASK, _DO, _UNDO = "t", "t.r/pay/do", "t.r/pay/undo"
_OUTCOME = Outcome(
    accepted={_TASK},
    rejections={},
    cancelled=set(),
    leftovers=[],
    rejected=[],
    fault_counts=dict.fromkeys(InjectedFault, 1),
    seconds=1,
)
_REJECTED = RejectedMessage(
    id="1",
    queue="agent-replies",
    message_id="m",
    size=1,
    whole=True,
    reason="10 deliveries",
    rejected_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def _judge(*versions: TaskRecord, keys: tuple[str, ...] = (_DO,), kind: MessageKind) -> Judge:
    """Return the judge of a run with the calls `keys`, after it has seen some versions of the task."""
    remotes = Remotes({})
    for key in keys:
        remotes.take_effect(key, "{}")
    judge = Judge(remotes.effects, {(_TASK, kind)}, most_recoveries=6)
    judge.looks = 1
    for version in versions:
        judge.observe({_TASK: replace(version, closed=(), outbox=())})
    return judge


def _paid() -> TaskRecord:
    """Return the record of an order that was paid, with an output."""
    return replace(run(new(spec("pay", undo=True), cancel_within=60), "pay"), output="{}")


def _undone() -> TaskRecord:
    """Return the record of an order that was cancelled after it was paid."""
    return run(after(_paid(), cancel()), "pay")


def _processed(*, keys: tuple[str, ...] = (_DO,)) -> Judge:
    first = new(spec("pay", undo=True), cancel_within=60)
    return _judge(first, _paid(), keys=keys, kind=MessageKind.COMPLETED)


def _compensated(*, keys: tuple[str, ...] = (_DO, _UNDO)) -> Judge:
    return _judge(_paid(), _undone(), keys=keys, kind=MessageKind.COMPENSATED)


def _refused() -> Judge:
    record = run(new(payment(), on_failure=FailurePolicy.KEEP), "pay", OutcomeKind.REFUSED)
    return _judge(record, keys=(), kind=MessageKind.ALERT)


@pytest.mark.parametrize("judge", [_processed, _compensated, _refused])
def test_correct_run_violates_nothing(judge: Callable[[], Judge]) -> None:
    """Processed; cancelled and undone; refused."""
    assert judge().judge(_OUTCOME) == []


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        (_processed(keys=()), "t pay: not done"),
        (_processed(keys=(_DO, _UNDO)), "t pay: not done"),
        (_processed(keys=(_DO, "t.another/pay/do")), "t.another/pay/do: of another run of t"),
        (_compensated(keys=(_DO,)), "t pay: not undone"),
        (_judge(_paid(), kind=MessageKind.RECEIVED), "t: no message of its end (Processed)"),
        (_judge(new(spec("pay")), kind=MessageKind.COMPLETED), "t: never ended (pick-up, None)"),
    ],
)
def test_defect_of_the_end_is_found(judge: Judge, expected: str) -> None:
    """The services, the notices or the record are not as the other evidence."""
    assert expected in judge.judge(_OUTCOME)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"accepted": {_TASK, "u"}}, "u: lost"),
        ({"rejections": {_TASK: "409 conflict"}}, "t: its submission was answered 409 conflict"),
        ({"cancelled": {_TASK}}, "t: cancelled, and Processed"),
        ({"leftovers": ["queue x holds 1 messages"]}, "queue x holds 1 messages"),
        ({"rejected": [_REJECTED]}, "no task: a message of queue agent-replies was rejected: 10 deliveries"),
        ({"fault_counts": {}}, "the fault 'host killed' had no effect"),
    ],
)
def test_defect_of_the_outcome_is_found(fields: dict[str, Any], expected: str) -> None:
    """One field of the outcome is wrong."""
    assert expected in _processed().judge(replace(_OUTCOME, **fields))


def _recovered() -> TaskRecord:
    """Return the record of an order whose payment was overdue once."""
    first = new(spec("pay"))
    return after(after(first, start(first, "pay", by=30)), DUE, seconds=60)


def _with_another_request(record: TaskRecord) -> TaskRecord:
    return record.with_operation("pay", replace(record.do("pay"), request='{"n":2}'))


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ((_recovered(), new(spec("pay"))), "t: epoch or run went back"),
        ((_undone(), replace(_undone(), direction=Direction.DO)), "t: from undo to do"),
        ((replace(_recovered(), failures=7),), "t: 7 recoveries"),
        ((_paid(), replace(_paid(), steps={})), "t pay: dispatch lost"),
        ((_paid(), _with_another_request(_paid())), "t pay do: request changed"),
    ],
)
def test_defect_of_a_version_is_found(versions: tuple[TaskRecord, ...], expected: str) -> None:
    """The record was wrong at one look, or went back."""
    assert expected in _judge(*versions, kind=MessageKind.COMPLETED).violations


async def test_tables_that_do_not_answer_are_no_look() -> None:
    """Azurite may be paused. A corrupt row is a violation, and a run without a look proves nothing.

    No task is deleted during a run.
    """

    class UnresponsiveTables:
        error: Exception = TransientStorageError("paused")

        async def records(self) -> dict[str, TaskRecord]:
            raise self.error

    judge, tables = Judge({}, set(), most_recoveries=6), UnresponsiveTables()
    assert not await judge.look(cast("Any", tables))
    assert "no task was examined while it ran" in judge.judge(replace(_OUTCOME, accepted=set()))
    tables.error = CorruptRowError("t|task", "no JSON")
    assert await judge.look(cast("Any", tables))
    assert "row t|task: no JSON" in judge.violations
    judge = _processed()
    judge.observe({})
    assert judge.violations == ["t: its record is gone"]


def test_service_sees_another_body_and_refuses_after_an_undo() -> None:
    """The faults of calls are violations, too: an effect key never has two bodies."""
    remotes = Remotes({"u": "pay"})
    calls = ((_DO, "{}"), (_DO, "{}"), (_DO, '{"n":2}'), (_UNDO, ""), (_DO, "{}"), ("u.r/pay/do", "{}"))
    statuses = [remotes.take_effect(key, body).status for key, body in calls]
    assert statuses == [201, 204, 204, 204, 410, 400]
    assert remotes.faults == [f"{_DO}: two bodies"]
    assert remotes.effects[_DO] == Effect("{}", done=1, undone=True)


_EMPTY = {"active": 0, "scheduled": 0, "deferred": 0, "dead_lettered": 0}
_PLAN = make_plan(1, 1, 1)
ORDER = _PLAN.orders[0].id


_UNFINISHED = new(spec("pay"))
_PROCESSED = run(_UNFINISHED, "pay")


class _Tables:
    """Returns the next of its contents at each look, and then the last one again."""

    def __init__(self, *looks: dict[str, TaskRecord] | Exception, unsent: Sequence[str] = ()) -> None:
        self._looks: Iterator[dict[str, TaskRecord] | Exception] = iter(looks)
        self._last: dict[str, TaskRecord] | Exception = {}
        self._unsent = list(unsent)

    async def records(self) -> dict[str, TaskRecord]:
        self._last = next(self._looks, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last

    async def unsent(self) -> list[str]:
        """Return the messages, which are sent after this look."""
        unsent, self._unsent = self._unsent, []
        return unsent


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "_LOOK_EVERY", 0.01)


async def test_settling_is_waited_for() -> None:
    """The tables are down, a task is unfinished, then finished; its message is not sent, then sent.

    Notices wait for their reader, and do not keep the platform from settling.
    """
    looks = (TransientStorageError("away"), {ORDER: _UNFINISHED}, {ORDER: _PROCESSED})
    notices = {"name": "notices-demo", "active": 9}
    assert await _settled(_Tables(*looks, unsent=["!send|1"]), notices, within=PATIENCE) == []


@pytest.mark.parametrize(
    ("record", "queue", "expected"),
    [
        (None, {}, f"{ORDER}: it has no task"),
        (_UNFINISHED, {}, f"{ORDER}: Pending in epoch 1: None"),
        (_PROCESSED, {"name": "agent-replies", "scheduled": 1}, "queue agent-replies holds 1 messages"),
        (_PROCESSED, {"name": "notices-demo", "dead_lettered": 2}, "queue notices-demo holds 2 messages"),
        (_PROCESSED, None, f"{ORDER}: its caller has no answer"),
    ],
)
async def test_leftover_is_named(
    record: TaskRecord | None, queue: dict[str, Any] | None, expected: str
) -> None:
    """When the time is over, there is a line for each leftover."""
    tables = _Tables({} if record is None else {ORDER: record})
    leftovers = await _settled(tables, queue or {}, within=0.03, waits=queue is None)
    assert leftovers == [expected]


async def _settled(
    tables: _Tables, queue: dict[str, Any], *, within: float, waits: bool = False
) -> Sequence[str]:
    async def queues(_request: web.Request) -> web.Response:
        return web.json_response([{"name": "submissions", **_EMPTY, **queue}])

    callers = Callers(["http://localhost"], _PLAN.orders)
    if not waits:
        callers.waiting.clear()
    application = web.Application()
    application.add_routes([web.get("/queues", queues)])
    async with served(application) as url:
        _, leftovers = await settle(cast("Tables", tables), url, callers, within)
    return leftovers
