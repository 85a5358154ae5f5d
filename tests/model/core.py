"""The records of a search, and the events of the core on them. Each question is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import count
from typing import NamedTuple

from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import ProcessState, derive
from functions.core.plan import RunLimits, plan
from functions.core.record import Direction, EpochEnd, MessageKind, OperationState, RuleSettings, TaskRecord
from functions.core.rules import admit, fold
from functions.core.task_events import (
    Answered,
    Cancelled,
    Canceller,
    Due,
    Event,
    OutcomeKind,
    Rejection,
    Resubmitted,
    RunStarted,
    StepEnded,
    UndoRequested,
    Verdict,
)
from tests.model.canonical import CURRENT, DRAWN, START, aged, canonical, in_ticks
from tests.model.state import Call
from tests.model.workflows import TASK, Payload
from tests.simulation.record_checks import RecordChecks

_WHO = {"who": "op", "reason": "because"}
_SOON = in_ticks(1) - START
SETTINGS = RuleSettings(start_within=_SOON, skew=timedelta(), threshold=1, extended_waits=(_SOON * 0.8,))
_MESSAGES = {
    ProcessState.PROCESSED: {MessageKind.COMPLETED},
    ProcessState.COMPENSATED: {MessageKind.COMPENSATED},
    ProcessState.ERROR: {MessageKind.ALERT, MessageKind.FAILED},
}


class After(NamedTuple):
    """The record after an event by its number, and the calls that begin with it."""

    record: int
    is_next_epoch: bool
    calls: tuple[Call, ...]


class Core:
    """The records by number; `after_…` return None if an event changes nothing."""

    def __init__(self, workflow: Workflow[Payload]) -> None:
        self.records: list[TaskRecord] = []
        self._registry = WorkflowRegistry([workflow], run_seconds=3600)
        self._numbers: dict[object, int] = {}
        self._checks = RecordChecks(
            records={},
            effects={},
            posted=(),
            require=_require,
            most_recoveries=SETTINGS.threshold + len(SETTINGS.extended_waits),
        )
        order = workflow.new_order(TASK, "r", "{}", START, submitter="me", reply_to="replies")
        self.first = self._number(canonical(admit(order, START, SETTINGS), frozenset())[0])
        self.after_begin = cache(self._after_begin)
        self.after_outcome = cache(self._after_outcome)
        self.after_action = cache(self._after_action)
        self.after_deadlines = cache(self._after_deadlines)
        self.aged = cache(self._aged)

    def _after_begin(
        self, record: int, run: int, under_way: frozenset[str], *, is_current: bool
    ) -> After | None:
        """Begin an activity of a run, perhaps again."""
        epoch = CURRENT if is_current else CURRENT - 1
        return self._folded(record, RunStarted(epoch=epoch, run=run), under_way, (epoch, run))

    def _after_outcome(
        self, record: int, run: int, call: Call, under_way: frozenset[str], *, is_current: bool
    ) -> After | None:
        """Record the outcome of a call with the starts that follow. After a late call, its run plans only."""
        epoch = CURRENT if is_current else CURRENT - 1
        current = self.records[record].current(call.step)
        is_once = not self.records[record].order.by_name[call.step].idempotent and not call.is_undo
        is_late = call.outcome == OutcomeKind.UNKNOWN and current.is_overdue(START) and not is_once
        kind = OutcomeKind(call.outcome)
        ended = StepEnded(
            epoch=epoch,
            step=call.step,
            direction=Direction.UNDO if call.is_undo else Direction.DO,
            start_id=call.start_id,
            kind=kind,
            result="{}" if kind is OutcomeKind.DONE else None,
            error=None if kind is OutcomeKind.DONE else "no",
        )
        return self._folded(record, None if is_late else ended, under_way, (epoch, run))

    def _after_action(self, record: int, action: str, under_way: frozenset[str]) -> After | None:
        """Record an operator's action. One on an earlier epoch is rejected."""
        before = self.records[record]
        late, event = (_action(action, epoch) for epoch in (CURRENT - 1, CURRENT))
        if not isinstance(late, Cancelled):
            rejection = fold(before, late, None, START, SETTINGS).rejection
            assert rejection is Rejection.STALE_EPOCH, f"{action} of an earlier epoch counts"
        self._checks.by_operator = {(TASK, event.step)} if isinstance(event, Answered) else set()
        after = self._folded(record, event, under_way, None)
        self._checks.by_operator = set()
        return after

    def _after_deadlines(self, record: int, under_way: frozenset[str]) -> After | None:
        """Examine the task as the Supervisor."""
        return self._folded(record, Due(may_recover=True), under_way, None)

    def _aged(self, record: int, under_way: frozenset[str]) -> int:
        return self._number(canonical(aged(self.records[record]), under_way)[0])

    def _folded(
        self, number: int, event: Event | None, under_way: frozenset[str], run: tuple[int, int] | None
    ) -> After | None:
        """Fold an event with the plan of a run into a record, and check the change."""
        before, ids = self.records[number], count()

        def planned(record: TaskRecord, now: datetime) -> Sequence[Event]:
            assert run is not None
            limits = RunLimits(
                epoch=run[0],
                run=run[1],
                room=16,
                ends_at=START + timedelta(hours=1),
                new_id=lambda: f"{DRAWN}{next(ids)}",
                gate=lambda _: None,
            )
            return plan(record, limits, self._registry, now)

        applied = fold(before, event, None if run is None else planned, START, SETTINGS)
        after = applied.record
        if after is before:
            return None
        self._check(before, after)
        kept, names = canonical(after, under_way)
        is_undo = after.direction is Direction.UNDO
        calls = tuple(
            Call(spec.name, names[operation.start_id or ""], is_undo)
            for spec, operation in after.operations
            if operation.start_id in names and operation.state is OperationState.RUNNING
        )
        return After(self._number(kept), after.epoch != before.epoch, calls)

    def _check(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check a change: the record alone, its starts and outcomes, the count of failures, its messages."""
        self._checks.check_version(after)
        self._checks.check_order(before, after)
        self._checks.check_starts_and_ends(before, after)
        recoveries = [closed for closed in after.closed if closed.end is EpochEnd.RECOVERED]
        assert after.failures <= before.failures + len(recoveries), "more failures than recoveries"
        is_open = before.finished_at is None or after.epoch != before.epoch
        has_ended = after.finished_at is not None and is_open
        sent = {message.kind for message in after.outbox}
        missing = _MESSAGES[derive(after).state] - sent if has_ended else ()
        assert not missing, f"it ends {derive(after).state}, and sends no {missing}"

    def _number(self, record: TaskRecord) -> int:
        key = (
            record.run,
            record.start_by,
            record.direction,
            record.failures,
            tuple(record.steps.values()),
            record.decision,
            record.error,
            record.resume_at,
            record.expires_at,
            record.finished_at,
        )
        if key not in self._numbers:
            self._numbers[key] = len(self.records)
            self.records.append(record)
        return self._numbers[key]


def _require(holds: object, text: str) -> None:
    assert holds, text


def _action(action: str, epoch: int) -> Answered | Cancelled | Resubmitted | UndoRequested:
    """Return the event of an operator's action: its name, or a verdict and the name of its step."""
    match action.split(":"):
        case ["cancel"]:
            return Cancelled(by=Canceller.OPERATOR, **_WHO)
        case ["resubmit"]:
            return Resubmitted(epoch=epoch, **_WHO)
        case ["undo"]:
            return UndoRequested(epoch=epoch, **_WHO)
        case [verdict, step]:
            return Answered(epoch=epoch, step=step, verdict=Verdict(verdict), result="{}", **_WHO)
    raise ValueError(action)
