"""What an Agent gets of a step that is under way: its call, or the request on its queue."""

from __future__ import annotations

from functions.pattern.agent_messages import AgentRequest
from functions.pattern.definition import Registry
from functions.pattern.identity import StepName, effect_key, item_of, step_of
from functions.pattern.inputs import result_of
from functions.pattern.ports import AgentCall
from functions.pattern.readiness import Definitions
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction


def agent_call(registry: Registry, record: TaskRecord, step: StepName) -> AgentCall:
    """Make the Agent's call. Raises `ValueError` for a step that is not under way."""
    recorded, direction = record.step(step), record.task.direction
    if recorded.complete_by is None:
        raise ValueError(f"task {record.order.task} step {step} runs without a complete-by")
    undoes = direction is Direction.UNDO
    return AgentCall(
        task=record.order.task,
        effect_key=effect_key(record.order.resource, step, direction),
        request=Definitions(registry, record).request(step),
        complete_by=recorded.complete_by,
        idempotent=recorded.shape.idempotent or undoes,
        result=result_of(recorded) if undoes else None,
        complete_within=recorded.shape.complete_within,
        retry=recorded.shape.retry,
    )


def agent_request(registry: Registry, record: TaskRecord, step: StepName) -> AgentRequest:
    """Make the request to an Agent behind a queue; made again, it is the same, with the same token."""
    call, recorded = agent_call(registry, record, step), record.step(step)
    return AgentRequest(
        schema_version=1,
        task_id=call.task,
        step=step_of(step),
        item=item_of(step),
        epoch=record.task.epoch,
        token=recorded.token or "",
        direction=record.task.direction,
        effect_key=call.effect_key,
        dispatch=recorded.dispatch_of(None),
        complete_by=call.complete_by,
        complete_within=call.complete_within,
        idempotent=call.idempotent,
        request=dict(call.request),
        result=None if call.result is None else dict(call.result),
    )
