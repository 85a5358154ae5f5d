"""What operators send: a reason with everything, and what the action needs besides."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.operations.asking import Reason, ReasonText
from functions.operations.tasks.actions import ActionName, Wish
from functions.operations.tasks.query import Filter
from functions.pattern.definition import STEP_PATTERN
from functions.pattern.identity import FIRST_EPOCH, Epoch, StepName
from functions.pattern.times import UtcTime
from functions.web.problems import FieldFault, ProblemError


class TaskReason(Reason):
    """Why an operator acts on a task, and the epoch in which it was seen: in another, nothing is done."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "the payment service is fixed", "epoch": 1}]}
    )

    epoch: Annotated[
        int | None, Field(ge=FIRST_EPOCH, description="The task's epoch; null stands for any")
    ] = None

    @property
    def seen_in(self) -> Epoch | None:
        """Give the epoch in which the task was seen; None for any."""
        return None if self.epoch is None else Epoch(self.epoch)


class FoundResult(TaskReason):
    """What a step gave, as its Agent would have given it, and how that was found out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"result": {"receipt": "p-1"}, "reason": "the payment is on the account", "epoch": 1}
            ]
        }
    )

    result: dict[str, Any]


class ToldEvent(TaskReason):
    """The event that a step waits for, and why an operator tells it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"body": {"approved": True}, "reason": "approved by telephone", "epoch": 1}]
        }
    )

    body: dict[str, Any]


class BulkAction(BaseModel):
    """An action on all tasks that a filter selected at the time `before`, and why.

    What has ended, was submitted, or has begun another epoch since then is left out, so that nothing is acted
    on twice. `step`, `result` and `body` are for the actions that need them.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "filter": {"state": "Error", "workflow": "orders"},
                    "action": "resubmit",
                    "reason": "the payment service is fixed",
                    "before": "2026-11-21T12:00:00Z",
                }
            ]
        },
    )

    filter: Filter
    action: ActionName
    reason: ReasonText
    before: UtcTime
    cursor: Annotated[str | None, Field(max_length=4_000, description="From the answer before")] = None
    step: Annotated[StepName | None, Field(pattern=rf"^{STEP_PATTERN}$")] = None
    result: dict[str, Any] | None = None
    body: dict[str, Any] | None = None

    def wish(self) -> Wish:
        """Say what is asked for. Raises `ProblemError` 422 for what is missing, or not for this action.

        A filter that asks for nothing was forgotten: nobody means all tasks in `Error` of all workflows so.
        """
        needed = {self.action.content} | ({"step"} if self.action.needs_step else set())
        given = {name: getattr(self, name) for name in ("step", "result", "body")}
        faults = [
            FieldFault(
                field=name, reason=f"'{self.action}' {'needs' if name in needed else 'takes no'} {name}"
            )
            for name, value in given.items()
            if (name in needed) is not (value is not None)
        ]
        if self.filter == Filter():
            faults.append(FieldFault(field="filter", reason="it is empty: name at least the state"))
        if faults:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=faults)
        return Wish(self.action, self.step, self.result if self.body is None else self.body)
