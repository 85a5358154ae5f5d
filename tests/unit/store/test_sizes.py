"""The largest task that can be defined: whatever happens to it, each of its writes fits into the table."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.definition import Workflow
from functions.pattern.epochs import UNKNOWN_AND_STAYS
from functions.pattern.events import DecisionDue, Event, GivenUp, StepCompleted, StepUnrecorded
from functions.pattern.folding import Change, Told, fold
from functions.pattern.identity import Epoch, StartId, StepName
from functions.pattern.records import MAX_RESULT_BYTES, TaskRecord
from functions.pattern.states import AlertCause, Direction, ProcessState, StepState, Way
from functions.pattern.step_records import StepRecord
from functions.pattern.store_ports import Stored
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.texts import MAX_ERROR_BYTES, bounded
from functions.pattern.wait_events import EventReceived
from functions.store.group_format import group_body
from functions.store.task_rows import admission, update
from functions.store.transactions import Transaction
from tests.fakes.interventions import cancellation, found_not_done, resubmission
from tests.fakes.tasks import FIRST, after, claimed, completed, failed, pending, started, told, unrecorded
from tests.fakes.workflows import awaiting, each, step, workflow

#: What Table Storage takes: of one property, one row, one transaction.
_PROPERTY, _ROW, _TRANSACTION, _OPERATIONS = 64 * 1024, 1024 * 1024, 4 * 1024 * 1024, 100

_TOKEN, _WHO = "t" * 32, "w" * 256
_NAMES = [f"{'n' * 29}-{number:02d}" for number in range(90)]


def _widest(*, idempotent: bool) -> Workflow:
    steps = (
        step(name, *_NAMES[:number], via=Way.QUEUE, idempotent=idempotent, undo=True)
        for number, name in enumerate(_NAMES)
    )
    return workflow(*steps, name="w" * 32)


WIDEST, ONCE = _widest(idempotent=True), _widest(idempotent=False)
ITEMS = workflow(each("n" * 32, via=Way.QUEUE, idempotent=False, undo=True, at_once=90), name="w" * 32)
STANDS = workflow(each("n" * 32, idempotent=False, at_once=90), name="w" * 32)
POLICY = SupervisionPolicy(
    threshold=3, extended_waits=(), skew=timedelta(0), start_within=timedelta(seconds=30)
)
#: JSON needs two bytes for the first, UTF-8 four for the other; control characters would be six.
each_text = pytest.mark.parametrize(
    "character", ["\\", "\U0001f600", "\x00"], ids=["escaped", "wide", "control"]
)


class Written:
    """A record, all of whose writes are checked."""

    def __init__(self, record: TaskRecord) -> None:
        self.record = record
        self._check(admission(record, "w" * 8))

    def tell(self, event: Event, at: float) -> None:
        """Have the task take an event, and write that."""
        folded = fold(self.record, [Told(event)], after(at))
        [answer] = folded.answers
        assert answer.fault is None
        self._write(answer.changes)

    def fail_all(self, text: str, *, complete_by: float = 0.123456) -> None:
        """Let each step be under way after many attempts, with the longest text of the last fault."""
        fault, now = bounded(text, MAX_ERROR_BYTES), self.record.task
        steps = tuple(self._under_way(each, fault, after(complete_by)) for each in self.record.steps)
        failed_all = replace(self.record, steps=steps, task=replace(now, last_error=f"{_NAMES[0]}: {fault}"))
        self._write([Change(self.record, failed_all, claimed())])

    def _under_way(self, each: StepRecord, fault: str, complete_by: datetime) -> StepRecord:
        epoch, at = self.record.task.epoch, after(0.123456)
        begun = started(each.name, epoch, token=_TOKEN, start_id=_start_id(each.name, epoch))
        return replace(
            each,
            state=StepState.RUNNING,
            error=fault,
            epoch=epoch,
            token=begun.token,
            start_id=begun.start_id,
            complete_by=complete_by,
            started_at=at,
            finished_at=at,
            attempts=1_000_000,
        )

    def _write(self, changes: tuple[Change, ...] | list[Change]) -> None:
        assert changes
        self._check(update(Stored(self.record, 'W/"etag"', ("w" * 8,) * 8), changes, "w" * 8))
        self.record = changes[-1].after

    @staticmethod
    def _check(transaction: Transaction) -> None:
        assert len(transaction.operations) <= _OPERATIONS
        for row in (operation.entity for operation in transaction.operations):
            sizes = [_size(value) for value in row.values()]
            assert max(sizes) <= _PROPERTY
            assert sum(sizes) + sum(2 * len(name) for name in row) <= _ROW
        assert len(group_body("Tasks", "000", transaction.operations)) <= _TRANSACTION


def _start_id(name: str, epoch: Epoch) -> StartId:
    return StartId(f"{epoch:08d}{name[-24:]}")


def _size(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-16-le"))
    return len(value) if isinstance(value, bytes) else 8


@each_text
def test_widest_task_with_the_longest_texts_is_written_to_its_end(character: str) -> None:
    """Recovered to the threshold, each time with a fault on all 90 steps; then held, and resubmitted."""
    written = Written(pending(WIDEST))
    at = 100.0
    for number in range(POLICY.threshold + 1):
        written.fail_all(character * 100_000)
        event = judge(written.record, after(at), POLICY)
        assert event is not None
        written.tell(event, at)
        assert len(written.record.history) == min(number + 1, POLICY.threshold)
        at += 1000
    assert written.record.task.process_state is ProcessState.ERROR
    written.tell(resubmission(written.record.task.epoch), at)
    assert len(written.record.history) == POLICY.threshold + 1


@each_text
@pytest.mark.parametrize("of", [ONCE, ITEMS], ids=["steps", "items"])
def test_widest_task_of_what_must_not_be_repeated_is_written_to_its_end(character: str, of: Workflow) -> None:
    """Held with 90 outcomes unknown, each of which is answered for; begun again, then known."""
    written, text = Written(pending(of, weight=90)), character * 100_000
    names = [step.name for step in written.record.steps]
    assert len(names) == 90
    written.fail_all(text)
    event = judge(written.record, after(100), POLICY)
    assert isinstance(event, GivenUp)
    written.tell(event, 100)
    for number, name in enumerate(names, 1):
        answer = replace(found_not_done(name, Epoch(number)), who=_WHO, reason=character * 500)
        written.tell(answer, 100 + number)
    epoch = written.record.task.epoch
    assert (written.record.task.process_state, epoch) == (ProcessState.PENDING, 91)
    written.tell(claimed(epoch, start_by=400), 300)
    written.fail_all(text, complete_by=1000)
    for name in names:
        written.tell(_known_late(name, FIRST), 400)
    assert all(each.noted for each in written.record.steps)
    written.tell(replace(cancellation(by_operator=True), who=_WHO, reason=character * 500), 500)
    assert written.record.task.decision is not None
    written.tell(replace(_known_late(names[0], epoch), error=text), 600)
    written.tell(_completed_late(names[1], epoch), 1001)
    event = judge(written.record, after(2000), POLICY)
    assert isinstance(event, DecisionDue)
    written.tell(event, 2000)
    assert (written.record.task.direction, written.record.task.epoch) == (Direction.UNDO, 92)


def test_widest_task_of_what_may_stand_without_an_undo_is_turned_back_in_one_change() -> None:
    """90 outcomes are unknown: all are noted, and there is one alert."""
    order = pending(STANDS, weight=90)
    written = Written(replace(order, order=replace(order.order, reply_to="notices-demo")))
    written.tell(claimed(start_by=400), 0)
    written.fail_all("")
    before = written.record
    written.tell(cancellation(by_operator=True), 500)
    assert written.record.task.process_state is ProcessState.COMPENSATED
    [_, alert] = announcements(before, written.record)
    assert (alert.cause, alert.step) == (AlertCause.NOTED, None)
    assert alert.reason is not None
    assert alert.reason.startswith(f"{'n' * 32}.0, {'n' * 32}.1, ")
    assert alert.reason.endswith(UNKNOWN_AND_STAYS)


@each_text
def test_decision_that_waits_for_its_reason_is_written(character: str) -> None:
    """A refusal beside 89 steps that must not be repeated: the task is held when their time has passed."""
    written = Written(pending(ONCE))
    written.tell(claimed(start_by=400), 0)
    written.fail_all("", complete_by=1000)
    refusal = failed(_NAMES[0], error=character * 100_000, token=_TOKEN)
    written.tell(replace(refusal, start_id=_start_id(_NAMES[0], FIRST)), 500)
    assert written.record.task.decision is not None
    event = judge(written.record, after(2000), POLICY)
    assert isinstance(event, DecisionDue)
    written.tell(event, 2000)
    assert written.record.task.process_state is ProcessState.ERROR


def _known_late(name: str, epoch: Epoch) -> StepUnrecorded:
    return replace(unrecorded(name, epoch), start_id=_start_id(name, epoch), token=_TOKEN)


def _completed_late(name: str, epoch: Epoch) -> StepCompleted:
    done = completed(name, epoch, result=b"x" * MAX_RESULT_BYTES, token=_TOKEN)
    return replace(done, start_id=_start_id(name, epoch))


@each_text
def test_refusal_of_any_length_is_recorded(character: str) -> None:
    """Of the step it is cut to 1 KiB, in the closed epoch to 256 bytes; as JSON, in UTF-8."""
    first = WIDEST.steps[0].name
    record = told(pending(WIDEST), claimed(), started(first))
    written = Written(record)
    written.tell(failed(first, error=character * 100_000), 1)
    error = written.record.step(first).error
    assert error is not None
    assert len(error.encode()) <= 1024
    written.tell(resubmission(), 2)
    past = written.record.history[0].steps[0].error
    assert past is not None
    assert len(past.encode()) <= 256


def test_results_of_all_steps_fit_with_the_record() -> None:
    """As many as a transaction may change at once, each of the largest size that is taken."""
    written = Written(pending(WIDEST))
    largest = b"x" * MAX_RESULT_BYTES
    steps = tuple(replace(each, state=StepState.COMPLETED, result=largest) for each in written.record.steps)
    written._write([Change(written.record, replace(written.record, steps=steps), claimed())])


@each_text
def test_waits_whose_events_came_before_can_all_begin_at_once(character: str) -> None:
    """Each event is the largest that is taken, with the longest reason; a change is never taken apart."""
    written = Written(pending(workflow(*map(awaiting, _NAMES), name="w" * 32)))
    body = b'{"approved":true}'.ljust(MAX_RESULT_BYTES)
    for name in _NAMES:
        event = EventReceived(
            step=StepName(name), body=body, who=_WHO, start_by=after(400), reason=character * 500
        )
        written.tell(event, 0)
    starts = [started(name, complete_by=3600) for name in _NAMES]
    folded = fold(written.record, [Told(claimed(), lambda _record, _now: starts)], after(1))
    written._write(folded.changes)
    assert written.record.task.process_state is ProcessState.PROCESSED
