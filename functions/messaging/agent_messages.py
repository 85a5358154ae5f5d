"""The messages between the application and Agents behind queues, version 1, as JSON objects in UTF-8.

A request arrives in the queue of its Agent, and its reply in `agent-replies`. A reply echoes the first seven
fields of its request and counts only with their values. `docs/agents.md` has the rules for Agents.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.functional_validators import model_validator

from functions.core.json_values import bounded
from functions.core.record import Direction
from functions.core.task_events import OutcomeKind, StepEnded
from functions.messaging.message_format import STEP_PATTERN, TASK_ID_PATTERN, UtcTime

#: Characters of a reason for operators.
MOST_REASON_CHARACTERS = 1_000

Reason = Annotated[str, Field(max_length=MOST_REASON_CHARACTERS)]


class Finding(StrEnum):
    """The answer of an Agent's `find`: whether the service carried out a step."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


def outcome_of(finding: Finding, *, fences_starts: bool) -> OutcomeKind:
    """Return the outcome of a start. Without a fence, a request may take effect after "not done"."""
    if finding is Finding.NOT_DONE:
        return OutcomeKind.NOT_BEGUN if fences_starts else OutcomeKind.UNKNOWN
    return OutcomeKind(finding)


class RequestKind(StrEnum):
    """The work of a request."""

    CARRY_OUT = "carry out"
    #: Look up whether the step was done, and change nothing at the remote service.
    FIND = "find"


class ReplyOutcome(StrEnum):
    """The outcome of a request. A look-up ends with `done`, `not_done` or `unknown`."""

    DONE = "done"
    #: The remote service refused permanently.
    REFUSED = "refused"
    #: Nothing was done under this start id, and nothing will be.
    NOT_TAKEN = "not_taken"
    #: The look-up found that the step was not done.
    NOT_DONE = "not_done"
    #: It is not known whether it was done, and no other reply follows.
    UNKNOWN = "unknown"


#: The recorded outcome of a reply. The outcome of `not_done` depends on `fences_starts`.
_OUTCOME_KINDS = {
    ReplyOutcome.DONE: OutcomeKind.DONE,
    ReplyOutcome.REFUSED: OutcomeKind.REFUSED,
    ReplyOutcome.NOT_TAKEN: OutcomeKind.NOT_BEGUN,
    ReplyOutcome.UNKNOWN: OutcomeKind.UNKNOWN,
}
#: The outcome of the reply that reports a recorded outcome.
REPLY_OUTCOMES = {kind: outcome for outcome, kind in _OUTCOME_KINDS.items()}
_ALLOWED_OUTCOMES = {
    RequestKind.CARRY_OUT: frozenset(ReplyOutcome) - {ReplyOutcome.NOT_DONE},
    RequestKind.FIND: frozenset({ReplyOutcome.DONE, ReplyOutcome.NOT_DONE, ReplyOutcome.UNKNOWN}),
}


class _AgentMessage(BaseModel):
    """The fields that a reply echoes. Unknown fields are ignored: they belong to a later version."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)

    schema_version: Annotated[int, Field(ge=1, le=1, description="The version of the schema: 1.")]
    task_id: Annotated[str, Field(pattern=TASK_ID_PATTERN, description="The id of the task.")]
    step: Annotated[
        str,
        Field(
            pattern=f"^{STEP_PATTERN}$",
            description="The name of the step, with the number of the item for a for-each step: `seats.3`.",
        ),
    ]
    direction: Annotated[Direction, Field(description="`do` the step, or `undo` it and refuse a late `do`.")]
    epoch: Annotated[int, Field(ge=1, description="The epoch of the task. Each recovery opens the next one.")]
    start_id: Annotated[
        str,
        Field(
            min_length=16,
            max_length=128,
            repr=False,
            description="Identifies this start of the step. It is a secret: do not log it.",
        ),
    ]
    kind: Annotated[
        RequestKind, Field(description="`carry out` the step, or `find` out whether this start did it.")
    ] = RequestKind.CARRY_OUT


class AgentRequest(_AgentMessage):
    """A request to carry out a step, or to look up its outcome, until `complete_by` (UTC).

    A request may arrive several times. A request with `"idempotent": false` is sent to the remote service
    once for each start id. Only an Agent that is declared to look up effects receives a look-up.
    """

    effect_key: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            description="The idempotency key: `{task}.{run id}/{step}/{direction}`, the same in every epoch.",
        ),
    ]
    complete_by: Annotated[
        UtcTime,
        Field(description="The deadline. An Agent that takes the request too late replies `not_taken`."),
    ]
    idempotent: Annotated[bool, Field(description="Whether the remote service may be called again.")]
    request: Annotated[dict[str, Any], Field(description="The request that the step's definition made.")]
    result: Annotated[
        dict[str, Any] | None,
        Field(description="For an undo: the result of the do, null if it is unknown."),
    ] = None

    @property
    def message_id(self) -> str:
        """Return the id of the message, the same in each repetition. It does not contain the start id."""
        start = hashlib.sha256(self.start_id.encode()).hexdigest()[:8]
        suffix = ".find" if self.kind is RequestKind.FIND else ""
        return f"{self.task_id}.{self.epoch}.{self.step}.{start}{suffix}"


class AgentReply(_AgentMessage):
    """The outcome of a request. After a transient fault there is no reply."""

    outcome: Annotated[
        ReplyOutcome,
        Field(description="`done` or `unknown`; to carry out: `refused`, `not_taken`; to find: `not_done`."),
    ]
    result: Annotated[
        dict[str, Any] | None,
        Field(description="With `done`: the result for later steps, at most 60,000 bytes in UTF-16."),
    ] = None
    no_result: Annotated[
        Reason,
        Field(description="With `done`, instead of `result`: why there is no usable result."),
    ] = ""
    error: Annotated[Reason, Field(description="With the other outcomes: the reason, for operators.")] = ""
    fences_starts: Annotated[
        bool,
        Field(
            description="With `not_done`: no request with this start id takes effect later."
            " Otherwise an operator decides."
        ),
    ] = False

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.outcome not in _ALLOWED_OUTCOMES[self.kind]:
            raise ValueError(f"the outcome {self.outcome} is not allowed with the kind {self.kind}")
        if self.fences_starts and self.kind is not RequestKind.FIND:
            raise ValueError(f"fences_starts is not allowed with the kind {self.kind}")
        allowed = {"result", "no_result"} if self.outcome is ReplyOutcome.DONE else {"error"}
        fields = {"result": self.result, "no_result": self.no_result, "error": self.error}
        wrong = [name for name, value in fields.items() if value and name not in allowed]
        if wrong:
            raise ValueError(f"{wrong[0]} is not allowed with the outcome {self.outcome}")
        if self.result and self.no_result:
            raise ValueError("no_result is not allowed with a result")
        return self

    @property
    def event(self) -> StepEnded:
        """Return the outcome as an event of the task. Without a result, it is an empty object."""
        result: str | None = None
        error = bounded(self.no_result or self.error) or None
        if self.no_result and self.direction is Direction.DO:
            kind = OutcomeKind.DONE_WITHOUT_RESULT
        elif self.outcome is ReplyOutcome.NOT_DONE:
            kind = outcome_of(Finding.NOT_DONE, fences_starts=self.fences_starts)
        else:
            kind = _OUTCOME_KINDS[self.outcome]
        is_look_up = self.kind is RequestKind.FIND
        if is_look_up and self.outcome is not ReplyOutcome.DONE:
            error = f"find: {self.outcome} {self.error}".rstrip()
        if kind is OutcomeKind.DONE and self.direction is Direction.DO:
            result = json.dumps(self.result or {}, ensure_ascii=False, separators=(",", ":"))
        return StepEnded(
            epoch=self.epoch,
            step=self.step,
            direction=self.direction,
            start_id=self.start_id,
            kind=kind,
            result=result,
            error=error,
            is_look_up=is_look_up,
        )


#: The fields that a reply echoes.
_ECHOED = AgentRequest.model_fields.keys() & AgentReply.model_fields.keys() - {"result"}


def reply_to(request: AgentRequest, outcome: ReplyOutcome, **fields: Any) -> AgentReply:
    """Return a reply with the fields of the request that a reply echoes."""
    echoed = {name: getattr(request, name) for name in _ECHOED}
    return AgentReply(**echoed, outcome=outcome, **fields)
