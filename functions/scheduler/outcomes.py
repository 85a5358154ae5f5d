"""One attempt at a step: what the Agent gets of the task's record, and the event that its outcome is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.errors import UnwritableError
from functions.pattern.events import StepCompleted, StepFailed
from functions.pattern.identity import Epoch, SchedulerId, StepName, TaskId, effect_key, scheduler_id
from functions.pattern.inputs import result_of, results_of, undo_results_of
from functions.pattern.messages import AgentRequest
from functions.pattern.ports import AgentCall
from functions.pattern.records import MAX_RESULT_BYTES, TaskRecord
from functions.pattern.states import Direction


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
    step: Step
    workflow: Workflow

    @property
    def author(self) -> Author:
        """Give the fields of an event of this attempt that say whose it is."""
        return Author(epoch=self.epoch, scheduler=scheduler_id(self.task, self.epoch), step=self.step.name)

    def is_needed(self, record: TaskRecord) -> bool:
        """Tell whether the order needs the step; one that was dispatched once is not judged again."""
        if self.step.when is None or record.task.direction is Direction.UNDO:
            return True
        if record.step(self.step.name).started_at is not None:
            return True
        return self.step.when(self._payload(record), results_of(self.workflow, record, self.step.name))

    def call(self, record: TaskRecord) -> AgentCall:
        """Make the Agent's call. Raises `ValueError` for a step that is not under way."""
        complete_by = record.step(self.step.name).complete_by
        if complete_by is None:
            raise ValueError(f"task {self.task} step {self.step.name} runs without a complete-by")
        undoes = record.task.direction is Direction.UNDO
        return AgentCall(
            task=self.task,
            effect_key=effect_key(self.task, self.step.name, record.task.direction),
            request=self._request(record),
            complete_by=complete_by,
            idempotent=self.step.idempotent or undoes,
            result=result_of(record.step(self.step.name)) if undoes else None,
        )

    def _request(self, record: TaskRecord) -> Json:
        payload = self._payload(record)
        if record.task.direction is Direction.UNDO and self.step.undo_request is not None:
            return self.step.undo_request(payload, undo_results_of(self.workflow, record, self.step.name))
        return self.step.request(payload, results_of(self.workflow, record, self.step.name))

    def agent_request(self, record: TaskRecord) -> AgentRequest:
        """Make the request to an Agent behind a queue; made again, it is the same, with the same token."""
        call = self.call(record)
        return AgentRequest(
            task_id=self.task,
            step=self.step.name,
            epoch=self.epoch,
            token=record.step(self.step.name).token or "",
            direction=record.task.direction,
            effect_key=call.effect_key,
            complete_by=call.complete_by,
            idempotent=call.idempotent,
            request=dict(call.request),
            result=None if call.result is None else dict(call.result),
        )

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

    def _payload(self, record: TaskRecord) -> object:
        return self.workflow.payload.model_validate_json(record.order.payload)
