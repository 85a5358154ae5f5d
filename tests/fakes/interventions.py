"""What Supervisor and operators do to a task, and records that they left behind."""

from __future__ import annotations

from datetime import datetime

from functions.pattern.events import Event, GivenUp, Recovered, Resubmitted, UndoRequested
from functions.pattern.identity import Epoch
from functions.pattern.records import TaskRecord
from tests.fakes.tasks import FIRST, after, completed, failed, started, told

OPERATOR = "olga"
SOLVED = "the service is back"


def recovery(epoch: Epoch = FIRST, *, start_by: float = 300, not_before: datetime | None = None) -> Recovered:
    """Make the event that the Supervisor gives the task to the next epoch."""
    return Recovered(epoch=epoch, start_by=after(start_by), not_before=not_before)


def giving_up(epoch: Epoch = FIRST, *, reason: str = "still overdue", hold: bool = False) -> GivenUp:
    """Make the event that the Supervisor recovers the task no more."""
    return GivenUp(epoch=epoch, reason=reason, hold=hold, start_by=after(300))


def resubmission(epoch: Epoch = FIRST) -> Resubmitted:
    """Make the event that an operator has the task run again."""
    return Resubmitted(epoch=epoch, who=OPERATOR, reason=SOLVED, start_by=after(300))


def undo_request(epoch: Epoch = FIRST) -> UndoRequested:
    """Make the event that an operator has the task undone."""
    return UndoRequested(epoch=epoch, who=OPERATOR, reason="cancelled", start_by=after(300))


def done(*steps: str, epoch: Epoch = FIRST) -> list[Event]:
    """Make the events of steps that are carried out, or undone, one after the other."""
    return [event for step in steps for event in (started(step, epoch), completed(step, epoch))]


def refused(step: str, epoch: Epoch = FIRST) -> list[Event]:
    """Make the events of a step that its service refuses for good."""
    return [started(step, epoch), failed(step, epoch)]


def overdue_at(record: TaskRecord) -> datetime:
    """Give the moment from which the task is overdue, where clocks do not differ."""
    return record.task.complete_by or record.task.due_at


def supervised(record: TaskRecord, event: Recovered | GivenUp) -> TaskRecord:
    """Let the Supervisor act on the task once it is overdue."""
    return told(record, event, now=overdue_at(record))


def recovered(record: TaskRecord) -> TaskRecord:
    """Give the task to its next epoch, as the Supervisor does."""
    return supervised(record, recovery(record.task.epoch))
