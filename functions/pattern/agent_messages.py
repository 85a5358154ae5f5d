"""The two messages between a Scheduler and an Agent behind a queue (`docs/agents.md`).

`docs/schemas/` holds their JSON Schemas, for Agents in other languages.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from functions.pattern.definition import NAME_PATTERN
from functions.pattern.identity import EffectKey, Epoch, StepName
from functions.pattern.messages import TaskIdField
from functions.pattern.states import Direction, Outcome

AGENT_REPLIES_QUEUE = "agent-replies"

#: A reply's reason goes into the task's row; the rest of what a service has to say is for its own log.
_MOST_REASON_CHARACTERS = 1_000

StepField = Annotated[StepName, Field(pattern=rf"^{NAME_PATTERN}$")]
EpochField = Annotated[Epoch, Field(ge=1)]
Token = Annotated[str, Field(min_length=16, max_length=128)]


def requests_queue(agent: str) -> str:
    """Name the queue on which an Agent gets its requests."""
    return f"agent-{agent}-requests"


class _AgentMessage(BaseModel):
    """What a reply echoes of its request."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    schema_version: Literal[1] = Field(1, description="1; another number means another schema.")
    task_id: TaskIdField = Field(description="The task; a reply echoes it.")
    step: StepField = Field(description="The task's step; a reply echoes it.")
    epoch: EpochField = Field(description="The attempt at the task, from 1 on; a reply echoes it.")
    token: Token = Field(
        repr=False,
        description="A secret of this request; a reply that does not echo it counts for nothing.",
    )


class AgentRequest(_AgentMessage):
    """Asks an Agent to do or to undo a step, until `complete_by` (UTC), under its idempotency key."""

    direction: Direction = Field(
        description="`do`: carry the step out. `undo`: reverse it, and refuse a late `do`."
    )
    effect_key: EffectKey = Field(
        description="The idempotency key, `{task}/{step}/{direction}`: the same in every attempt."
    )
    complete_by: AwareDatetime = Field(
        description="From this time on (UTC) nothing may be begun, and no reply counts."
    )
    request: dict[str, Any] = Field(description="What to do, as the workflow's step says it.")


class AgentReply(_AgentMessage):
    """Tells what came of a request: done, with its `result`, or refused for good, with its `error`.

    What failed in a way that passes, or was not done by complete-by, gets no reply at all.
    """

    outcome: Literal[Outcome.COMPLETED, Outcome.FAILED] = Field(
        description="`completed`: it is done, or undone. `failed`: it is refused for good."
    )
    result: dict[str, Any] = Field(
        default_factory=dict,
        description="What later steps need to know, at most 24 KiB as compact JSON; of `completed` only.",
    )
    error: str = Field(
        "",
        max_length=_MOST_REASON_CHARACTERS,
        description="The reason, for the operator; of `failed` only.",
    )


def reply_to(
    request: AgentRequest,
    outcome: Literal[Outcome.COMPLETED, Outcome.FAILED],
    *,
    result: dict[str, Any] | None = None,
    error: str = "",
) -> AgentReply:
    """Answer a request, echoing what makes the answer count."""
    return AgentReply(
        task_id=request.task_id,
        step=request.step,
        epoch=request.epoch,
        token=request.token,
        outcome=outcome,
        result=result or {},
        error=error[:_MOST_REASON_CHARACTERS],
    )


def seconds_left(complete_by: datetime, now: datetime) -> float:
    """Give the time to live of a request, in seconds; 0 when it is too late."""
    return max(0.0, (complete_by - now).total_seconds())
