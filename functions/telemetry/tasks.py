"""Spans of the work on a task, all in its order's trace, and of sweeps.

Durable Functions hands Python no trace, so it is kept with the order. What began an epoch, such as the
Supervisor's recovery, is a span of another trace, to which what runs in that epoch is linked.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from opentelemetry.context import Context
from opentelemetry.trace import Span

from functions.pattern.identity import Epoch, item_of
from functions.pattern.records import TaskRecord
from functions.pattern.shape import StepShape
from functions.telemetry.fields import Facts, Field
from functions.telemetry.spans import context_of, links_to, span


def run_steps_span(record: TaskRecord, epoch: Epoch) -> AbstractContextManager[Span]:
    """Follow a run of `run_steps` of the Scheduler of `epoch`."""
    return _epoch_span("run_steps", record, epoch, {})


def step_span(record: TaskRecord, step: StepShape, epoch: Epoch) -> AbstractContextManager[Span]:
    """Follow an attempt at a step in `epoch`."""
    item = item_of(step.name)
    facts: Facts = {
        Field.STEP: step.step,
        **({} if item is None else {Field.ITEM: item}),
        Field.AGENT: step.agent,
        Field.DIRECTION: record.task.direction.value,
    }
    return _epoch_span(f"step {step.step}", record, epoch, facts)


def sweep_span() -> AbstractContextManager[Span]:
    """Follow a sweep of the Supervisor, which is a trace of its own."""
    return span("supervisor sweep", {}, parent=Context())


def decision_span(record: TaskRecord, decision: str) -> AbstractContextManager[Span]:
    """Follow what is decided about a task from outside its trace, which it is linked to."""
    facts = {**_task_facts(record), Field.EPOCH: record.task.epoch, Field.DECISION: decision}
    return span(decision, facts, links=links_to(record.order.traceparent))


def _epoch_span(name: str, record: TaskRecord, epoch: Epoch, facts: Facts) -> AbstractContextManager[Span]:
    begun_by = next((each.traceparent for each in record.history if each.epoch == epoch - 1), None)
    facts = {**_task_facts(record), **facts, Field.EPOCH: epoch}
    parent = context_of(record.order.traceparent)
    return span(name, facts, parent=parent, links=links_to(begun_by))


def _task_facts(record: TaskRecord) -> Facts:
    return {Field.TASK: record.order.task, Field.WORKFLOW: record.order.workflow}
