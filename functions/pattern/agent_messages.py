"""The messages between Schedulers and Agents behind queues; `docs/schemas/` holds their JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, ValidationInfo, field_validator

from functions.pattern.identity import EffectKey, StepName, item_name
from functions.pattern.messages import EpochField, Message, StepField, TaskIdField
from functions.pattern.states import Direction, Outcome
from functions.pattern.texts import cut
from functions.pattern.times import UtcTime

#: A reply's reason goes into the task's row; the rest of what a service says is for its own log.
_MOST_REASON_CHARACTERS = 1_000
_NO_REASON = "no reason is known"

Token = Annotated[str, Field(min_length=16, max_length=128)]
Reason = Annotated[str, Field(max_length=_MOST_REASON_CHARACTERS)]


class _AgentMessage(Message):
    """What a reply echoes of its request."""

    schema_version: Annotated[int, Field(ge=1, le=1)] = Field(
        description="The version of the schema; a reply echoes it."
    )
    task_id: TaskIdField = Field(description="The task; a reply echoes it.")
    step: StepField = Field(description="The task's step; a reply echoes it.")
    epoch: EpochField = Field(description="The attempt at the task, from 1 on; a reply echoes it.")
    token: Token = Field(
        repr=False, description="A secret of this request; a reply that does not echo it counts for nothing."
    )


#: What a reply echoes.
ECHOED = tuple(_AgentMessage.model_fields)


class AgentRequest(_AgentMessage):
    """Asks an Agent to do or to undo a step, until `complete_by` (UTC), under its idempotency key.

    It may wait for its Agent, which has `complete_within` seconds once it begins. One that is not
    `idempotent` is sent to the remote service once, however often it arrives. It may gain fields within a
    version: an Agent ignores those that it does not know.
    """

    model_config = ConfigDict(extra="ignore")

    item: Annotated[int, Field(ge=0)] | None = Field(
        None,
        exclude_if=lambda item: item is None,
        description="Of a for-each step only: its item, from 0 on. The token tells whose a reply is.",
    )
    direction: Direction = Field(
        description="`do`: carry the step out. `undo`: reverse it, and refuse a late `do`."
    )
    effect_key: EffectKey = Field(
        description="The idempotency key, `{task}.{birth}/{step}/{direction}`: the same in every attempt."
        " An item's number follows its step: `{step}.{item}`."
    )
    dispatch: Annotated[int, Field(ge=1)] = Field(
        1,
        exclude_if=lambda dispatch: dispatch == 1,
        description="Which dispatch of the step in its epoch it is: more than 1 after replies `not_taken`.",
    )
    complete_by: UtcTime = Field(
        description="From this time on (UTC) nothing may be begun, and no reply is sent,"
        " except one that was `idempotent: false` and has a known outcome."
    )
    complete_within: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None,
        exclude_if=lambda seconds: seconds is None,
        description="The seconds that the Agent has from its begin, never past `complete_by`. Where fewer are"
        " left, it is not begun, and the reply is `not_taken`. Without it, there is until `complete_by`.",
    )
    idempotent: bool = Field(
        description="Whether the service may be called again. `false`: it is called once, also when the"
        " request arrives again.",
    )
    request: dict[str, Any] = Field(description="What to do or to undo, as the workflow's step says it.")
    result: dict[str, Any] | None = Field(
        description="Of an undo: the result of the do, null where that is unknown.",
    )

    @property
    def of_step(self) -> StepName:
        """Name the step as the task's record does: of a for-each step, it is the item."""
        return self.step if self.item is None else item_name(self.step, self.item)

    @property
    def message_id(self) -> str:
        """Name the message: the same when the request is sent again."""
        name = f"{self.task_id}.{self.epoch}.{self.of_step}"
        return name if self.dispatch == 1 else f"{name}.r{self.dispatch}"

    @property
    def begin_by(self) -> datetime:
        """Tell until when an Agent can begin and still have the step's own time."""
        return self.complete_by - self._within

    def waited_too_long(self, now: datetime) -> bool:
        """Tell whether an Agent that takes it now has less time left than the step's own."""
        return self.complete_within is not None and now > self.begin_by

    def work_ends_by(self, begun_at: datetime) -> datetime:
        """Tell until when an Agent may work on it that began at that time."""
        return (
            self.complete_by
            if self.complete_within is None
            else min(self.complete_by, begun_at + self._within)
        )

    @property
    def _within(self) -> timedelta:
        return timedelta(seconds=self.complete_within or 0)


def _beside(given: str, other: str) -> dict[str, JsonValue]:
    """Write as a rule of the schema that beside an outcome of `given` there is nothing in field `other`."""
    empty: JsonValue = {"maxProperties": 0} if other == "result" else {"maxLength": 0}
    return {
        "if": {"properties": {"outcome": {"const": given}}, "required": ["outcome"]},
        "then": {"properties": {other: empty}},
    }


_NO_RESULT_BESIDE_ONE: JsonValue = {
    "if": {"properties": {"no_result": {"minLength": 1}}, "required": ["no_result"]},
    "then": {"properties": {"result": {"maxProperties": 0}}},
}
_RULES: list[JsonValue] = [
    _beside("failed", "result"),
    _beside("failed", "no_result"),
    _beside("completed", "error"),
    *(_beside("not_taken", other) for other in ("result", "no_result", "error")),
    _NO_RESULT_BESIDE_ONE,
]


class AgentReply(_AgentMessage):
    """The outcome of a request: done, with its `result`, or refused for good, with its `error`; or not begun.

    A transient failure, or work not done by complete-by, gets no reply at all; what is known of a request
    that is not `idempotent` is replied, however late. A field that is empty is as good as none.
    """

    model_config = ConfigDict(json_schema_extra={"allOf": _RULES})

    outcome: Literal[Outcome.COMPLETED, Outcome.FAILED, Outcome.NOT_TAKEN] = Field(
        description="`completed`: it is done, or undone. `failed`: it is refused for good. `not_taken`: it"
        " waited too long, and was not begun, nor will it be; it is dispatched again."
    )
    result: dict[str, Any] = Field(
        default_factory=dict,
        description="What later steps need to know, at most 24 KiB as compact JSON; of `completed` only.",
    )
    no_result: Reason = Field(
        "",
        description="Of `completed`, in the place of `result`: why there is none that can be used. The task"
        " is held, and an operator gives the result.",
    )
    error: Reason = Field("", description="The reason, for the operator; of `failed` only.")

    @field_validator("result", "no_result")
    @classmethod
    def _only_if_done(cls, given: dict[str, Any] | str, read: ValidationInfo) -> dict[str, Any] | str:
        outcome = read.data.get("outcome")
        if given and outcome in {Outcome.FAILED, Outcome.NOT_TAKEN}:
            raise ValueError(f"not beside the outcome '{outcome}'")
        if given and read.data.get("result"):
            raise ValueError("not beside a result")
        return given

    @field_validator("error")
    @classmethod
    def _only_if_refused(cls, given: str, read: ValidationInfo) -> str:
        outcome = read.data.get("outcome")
        if given and outcome in {Outcome.COMPLETED, Outcome.NOT_TAKEN}:
            raise ValueError(f"not beside the outcome '{outcome}'")
        return given


def done(request: AgentRequest, result: Mapping[str, Any]) -> AgentReply:
    """Reply that a request is carried out."""
    return AgentReply(**_echo(request), outcome=Outcome.COMPLETED, result=dict(result))


def done_without_result(request: AgentRequest, reason: str) -> AgentReply:
    """Reply that a request is carried out, and why there is no result that can be used."""
    no_result = cut(reason, _MOST_REASON_CHARACTERS) or _NO_REASON
    return AgentReply(**_echo(request), outcome=Outcome.COMPLETED, no_result=no_result)


def refused(request: AgentRequest, reason: str) -> AgentReply:
    """Reply that a request is refused for good."""
    return AgentReply(**_echo(request), outcome=Outcome.FAILED, error=cut(reason, _MOST_REASON_CHARACTERS))


def not_taken(request: AgentRequest) -> AgentReply:
    """Reply that a request has waited too long, and that nothing of it was begun."""
    return AgentReply(**_echo(request), outcome=Outcome.NOT_TAKEN)


def _echo(request: AgentRequest) -> dict[str, Any]:
    """Give what makes a reply count."""
    return {name: getattr(request, name) for name in ECHOED}
