"""The judge finds nothing in a correct run, and each defect that is planted in its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from functions.core.record import Direction, FailurePolicy, MessageKind, TaskRecord
from functions.core.task_events import OutcomeKind
from functions.messaging.rejected_messages import RejectedMessage
from functions.storage.table_contract import CorruptRowError, TransientStorageError
from tests.chaos.judge import Judge, Outcome
from tests.chaos.plan import InjectedFault
from tests.chaos.remotes import Remotes
from tests.simulation.services import Effect
from tests.unit.core.builders import LOOK, after, cancel, new, payment, run, spec, start

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
    return after(after(first, start(first, "pay", by=30)), LOOK, seconds=60)


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
