"""What was told of a task and to whom, found by going through its history once more.

Each notice and alert is recorded with the change that it is about, and sent until it is taken; so the
history says what was told, and nobody has to write that down.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from pydantic import BaseModel

from functions.pattern.announcements import announcements
from functions.pattern.records import EpochRecord, TaskRecord
from functions.pattern.states import AnnouncementKind, ProcessState, StepState


class NoticeView(BaseModel):
    """One notice to the caller, or alert to the operator; `at` is null where the history has no time."""

    kind: AnnouncementKind
    epoch: int
    at: datetime | None


def notices(record: TaskRecord) -> list[NoticeView]:
    """Name what was told of the task, from its submission on."""
    told = _between(None, _in(record, 0, ProcessState.PENDING), record.order.submitted_at)
    for number, closed in enumerate(record.history):
        began, ended = _in(record, number, ProcessState.PENDING), _in(record, number, closed.process_state)
        told += _between(began, ended, _refused_at(closed))
        told += _between(ended, _in(record, number + 1, ProcessState.PENDING), closed.ended_at)
    last = _in(record, len(record.history), ProcessState.PENDING)
    return told + _between(last, record, record.task.finished_at)


def _between(before: TaskRecord | None, after: TaskRecord, at: datetime | None) -> list[NoticeView]:
    return [NoticeView(kind=each.kind, epoch=each.epoch, at=at) for each in announcements(before, after)]


def _refused_at(closed: EpochRecord) -> datetime | None:
    """Tell when a refusal ended what the epoch could do; one that was given up does not say when."""
    refused = (step for step in closed.steps if step.epoch == closed.epoch and step.state is StepState.FAILED)
    return max((step.finished_at for step in refused if step.finished_at is not None), default=None)


def _in(record: TaskRecord, number: int, state: ProcessState) -> TaskRecord:
    """Give the record as it was in its epoch of that number (from 0), in `state`."""
    epochs = [*(closed.epoch for closed in record.history), record.task.epoch]
    task = replace(record.task, epoch=epochs[number], process_state=state)
    return replace(record, task=task, history=record.history[:number])
