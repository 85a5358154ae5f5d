"""Events from Supervisor and operators, and the records that result."""

from __future__ import annotations

from datetime import datetime

from functions.pattern.events import (
    Cancelled,
    Event,
    FoundDone,
    FoundNotDone,
    GivenUp,
    Recovered,
    Resubmitted,
    UndoRequested,
)
from functions.pattern.identity import Epoch, StepName
from functions.pattern.operator_events import ParkRequested, ResultGiven, Unparked
from functions.pattern.records import TaskRecord
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import TRIP

OPERATOR = "olga"
SOLVED = "the service is back"


def recovery(epoch: Epoch = FIRST, *, start_by: float = 300, not_before: datetime | None = None) -> Recovered:
    """Create the event with which the Supervisor recovers the task."""
    return Recovered(epoch=epoch, start_by=after(start_by), not_before=not_before)


def giving_up(epoch: Epoch = FIRST, *, reason: str = "still overdue", hold: bool = False) -> GivenUp:
    """Create the event with which the Supervisor gives up recovering the task."""
    return GivenUp(epoch=epoch, reason=reason, hold=hold, start_by=after(300))


def resubmission(epoch: Epoch = FIRST) -> Resubmitted:
    """Create the event of an operator's resubmission."""
    return Resubmitted(epoch=epoch, who=OPERATOR, reason=SOLVED, start_by=after(300))


def undo_request(epoch: Epoch = FIRST) -> UndoRequested:
    """Create the event of an operator's undo."""
    return UndoRequested(epoch=epoch, who=OPERATOR, reason="cancelled", start_by=after(300))


def found_done(step: str, epoch: Epoch = FIRST, *, result: bytes = b"{}") -> FoundDone:
    """Create the event of an operator who found out that a step was done."""
    return FoundDone(
        epoch=epoch,
        step=StepName(step),
        result=result,
        who=OPERATOR,
        reason="it is on the account",
        start_by=after(300),
    )


def found_not_done(step: str, epoch: Epoch = FIRST) -> FoundNotDone:
    """Create the event of an operator who found out that a step was not done."""
    return FoundNotDone(
        epoch=epoch,
        step=StepName(step),
        who=OPERATOR,
        reason="there is no such payment",
        start_by=after(300),
    )


def result_given(step: str, epoch: Epoch = FIRST, *, result: bytes = b"{}") -> ResultGiven:
    """Create the event of an operator who gives the result of a step that failed."""
    return ResultGiven(
        epoch=epoch,
        step=StepName(step),
        result=result,
        who=OPERATOR,
        reason="paid by hand",
        start_by=after(300),
    )


def park_request(epoch: Epoch = FIRST) -> ParkRequested:
    """Create the event of an operator who parks a task."""
    return ParkRequested(epoch=epoch, who=OPERATOR, reason="the site is closed", start_by=after(300))


def unparking(epoch: Epoch = FIRST) -> Unparked:
    """Create the event of an operator who has a parked task go on."""
    return Unparked(epoch=epoch, who=OPERATOR, reason="the site is open", start_by=after(300))


def cancellation(*, by_operator: bool = False) -> Cancelled:
    """Create the event of a task that its caller cancels, or an operator."""
    who = OPERATOR if by_operator else "carla"
    return Cancelled(who=who, reason="not needed", by_operator=by_operator, start_by=after(300))


def done(*steps: str, epoch: Epoch = FIRST) -> list[Event]:
    """Create the events of steps that are done or undone, one after the other."""
    return [event for step in steps for event in (started(step, epoch), completed(step, epoch))]


def refused(step: str, epoch: Epoch = FIRST) -> list[Event]:
    """Create the events of a step that its service refuses permanently."""
    return [started(step, epoch), failed(step, epoch)]


def overdue_at(record: TaskRecord) -> datetime:
    """Return the time from which the task is overdue, without clock skew."""
    return record.task.complete_by or record.task.due_at


def supervised(record: TaskRecord, event: Recovered | GivenUp) -> TaskRecord:
    """Apply the Supervisor's action when the task is overdue."""
    return told(record, event, now=overdue_at(record))


def recovered(record: TaskRecord) -> TaskRecord:
    """Recover the task, as the Supervisor does."""
    return supervised(record, recovery(record.task.epoch))


#: A trip whose car was refused, turned back; and claimed by the Scheduler that undoes it.
TURNED = told(pending(TRIP), claimed(), *done("flight", "hotel"), *refused("car"))
UNDOING = told(TURNED, claimed(SECOND))
