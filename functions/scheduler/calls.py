"""What an Agent gets of a task: its call, or the request on its queue, made by the definition's functions."""

from __future__ import annotations

from functions.pattern.definition import Workflow
from functions.pattern.identity import StepName, effect_key
from functions.pattern.inputs import results_of
from functions.pattern.messages import AgentRequest
from functions.pattern.ports import AgentCall
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction


def is_needed(workflow: Workflow, record: TaskRecord, step: StepName) -> bool:
    """Tell whether the order needs the step; one that was dispatched once is not judged again."""
    if record.task.direction is Direction.UNDO or record.step(step).started_at is not None:
        return True
    when = workflow.step(step).when
    return when is None or when(_payload(workflow, record), results_of(record, step))


def agent_call(workflow: Workflow, record: TaskRecord, step: StepName) -> AgentCall:
    """Make the Agent's call. Raises `ValueError` for a step that is not under way."""
    recorded, direction = record.step(step), record.task.direction
    if recorded.complete_by is None:
        raise ValueError(f"task {record.order.task} step {step} runs without a complete-by")
    request = workflow.step(step).request
    return AgentCall(
        task=record.order.task,
        effect_key=effect_key(record.order.resource, step, direction),
        request=request(_payload(workflow, record), results_of(record, step)),
        complete_by=recorded.complete_by,
        idempotent=recorded.shape.idempotent or direction is Direction.UNDO,
    )


def agent_request(workflow: Workflow, record: TaskRecord, step: StepName) -> AgentRequest:
    """Make the request to an Agent behind a queue; made again, it is the same, with the same token."""
    call, recorded = agent_call(workflow, record, step), record.step(step)
    return AgentRequest(
        task_id=call.task,
        step=step,
        epoch=record.task.epoch,
        token=recorded.token or "",
        direction=record.task.direction,
        effect_key=call.effect_key,
        complete_by=call.complete_by,
        idempotent=call.idempotent,
        request=dict(call.request),
    )


def _payload(workflow: Workflow, record: TaskRecord) -> object:
    return workflow.payload.model_validate_json(record.order.payload)
