"""One attempt at a step, and the event that its outcome is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from functions.pattern.errors import UnwritableError
from functions.pattern.events import StepCompleted, StepFailed
from functions.pattern.identity import Epoch, SchedulerId, StepName, TaskId, scheduler_id
from functions.pattern.records import MAX_RESULT_BYTES


class Author(TypedDict):
    """Whose an event of a step is: the fields that these events have in common."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName


@dataclass(frozen=True, slots=True)
class StepAttempt:
    """One step of a task in one epoch."""

    task: TaskId
    epoch: Epoch
    step: StepName

    @property
    def author(self) -> Author:
        """Give the fields of an event of this attempt that say whose it is."""
        return Author(epoch=self.epoch, scheduler=scheduler_id(self.task, self.epoch), step=self.step)

    def completed(
        self, result: Mapping[str, Any], start_by: datetime, token: str | None = None
    ) -> StepCompleted | StepFailed:
        """Make the event of a step that is done; a result that no row can hold is a failure."""
        encoded = json.dumps(dict(result), separators=(",", ":"), ensure_ascii=False).encode()
        if len(encoded) > MAX_RESULT_BYTES:
            return self.failed(f"its result has more than {MAX_RESULT_BYTES} bytes", start_by, token)
        return StepCompleted(**self.author, result=encoded, start_by=start_by, token=token)

    def failed(self, reason: str, start_by: datetime, token: str | None = None) -> StepFailed:
        """Make the event of a step that is refused for good."""
        return StepFailed(**self.author, error=reason, start_by=start_by, token=token)

    def unwritable(self, error: UnwritableError, start_by: datetime, token: str | None = None) -> StepFailed:
        """Make the event of a step whose outcome the state store refuses, and would again."""
        return self.failed(f"its outcome can't be recorded: {error}", start_by, token)
