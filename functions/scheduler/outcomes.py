"""One attempt at a step, and the events that tell of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from functions.pattern.errors import PermanentError, UnwritableError
from functions.pattern.events import (
    StepBroken,
    StepCompleted,
    StepFailed,
    StepNotTaken,
    StepOutcome,
    StepUnknown,
    StepUnrecorded,
)
from functions.pattern.identity import Epoch, SchedulerId, StartId, StepName, TaskId, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.requests import result_bytes
from functions.pattern.states import Direction
from functions.pattern.texts import cause_of


class Author(TypedDict):
    """Whose an event of a step is: the fields that these events have in common."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName


class _OfStart(Author):
    """Of which start of a step an event is: a reply over a queue shows its `token`."""

    start_id: StartId | None
    token: str | None
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttempt:
    """One start of a step in one epoch. What is done under it may be repeated, or must not be.

    Nobody needs what an undo gives.
    """

    task: TaskId
    epoch: Epoch
    scheduler: SchedulerId
    step: StepName
    start_id: StartId | None
    is_repeatable: bool
    is_undo: bool = False
    token: str | None = None

    @classmethod
    def of(cls, record: TaskRecord, step: StepName) -> StepAttempt:
        """Give the attempt that is under way."""
        begun = record.step(step)
        return cls(
            task=record.order.task,
            epoch=record.task.epoch,
            scheduler=scheduler_id(record.order.task, record.task.epoch, record.task.run),
            step=step,
            start_id=begun.start_id,
            is_repeatable=begun.shape.idempotent or record.task.direction is Direction.UNDO,
            is_undo=record.task.direction is Direction.UNDO,
            token=begun.token,
        )

    @property
    def author(self) -> Author:
        """Give the fields of an event of this attempt that say whose it is."""
        return Author(epoch=self.epoch, scheduler=self.scheduler, step=self.step)

    def completed(self, result: Mapping[str, Any], start_by: datetime) -> StepOutcome:
        """Make the event of a step that is done; its result may be one that no row can hold."""
        try:
            encoded = result_bytes(result)
        except PermanentError as unusable:
            return self.unusable(str(unusable), start_by)
        return StepCompleted(**self._of_start(start_by), result=encoded)

    def failed(self, reason: str, start_by: datetime) -> StepFailed:
        """Make the event of a step that is refused for good."""
        return StepFailed(**self._of_start(start_by), error=reason)

    def not_taken(self, start_by: datetime) -> StepNotTaken:
        """Make the event of a step whose request its Agent did not begin."""
        return StepNotTaken(**self._of_start(start_by))

    def unusable(self, reason: str, start_by: datetime) -> StepCompleted | StepUnrecorded:
        """Make the event of a step that is done without a result that can be kept.

        It is not refused: that would have it taken for not done.
        """
        if self.is_undo:
            return StepCompleted(**self._of_start(start_by), result=b"{}")
        return StepUnrecorded(**self._of_start(start_by), error=f"it was done, but {reason}")

    def unwritable(self, outcome: StepOutcome, error: UnwritableError, start_by: datetime) -> StepOutcome:
        """Make the event of a step whose outcome the state store refuses, and would again."""
        reason = f"its outcome can't be recorded: {error}"
        if isinstance(outcome, StepFailed) or self.is_undo:
            return self.failed(reason, start_by)
        return self.unusable(reason, start_by)

    def unknown(self, fault: Exception, start_by: datetime) -> StepUnknown:
        """Make the event of a step that may fail, and of which nobody knows what came."""
        return StepUnknown(**self._of_start(start_by), fault=cause_of(fault))

    def broken(self, defect: Exception, start_by: datetime) -> StepBroken:
        """Make the event of a step whose definition has a defect."""
        return StepBroken(**self.author, error=cause_of(defect), start_by=start_by)

    def _of_start(self, start_by: datetime) -> _OfStart:
        return _OfStart(**self.author, start_id=self.start_id, token=self.token, start_by=start_by)
