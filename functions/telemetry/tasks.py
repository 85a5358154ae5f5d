"""Spans of the work on a task, all in its order's trace however the work was started, and of sweeps.

Durable Functions hands Python no trace, so it is kept with the order. What began an epoch, such as the
Supervisor's recovery, is a span of another trace: what runs in that epoch is linked to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.trace import Span

from functions.pattern.definition import Step
from functions.pattern.identity import Epoch
from functions.pattern.records import TaskRecord
from functions.telemetry.fields import Facts, Field
from functions.telemetry.spans import context_of, links_to, span


@contextmanager
def claim_span(record: TaskRecord, epoch: Epoch) -> Iterator[Span]:
    """Follow the claim of the Scheduler of `epoch`."""
    with _epoch_span("claim", record, epoch, {}) as begun:
        yield begun


@contextmanager
def step_span(record: TaskRecord, step: Step, epoch: Epoch) -> Iterator[Span]:
    """Follow an attempt at a step in `epoch`."""
    facts: Facts = {
        Field.STEP: step.name,
        Field.AGENT: step.agent,
        Field.DIRECTION: record.task.direction.value,
    }
    with _epoch_span(f"step {step.name}", record, epoch, facts) as begun:
        yield begun


@contextmanager
def sweep_span() -> Iterator[Span]:
    """Follow a sweep of the Supervisor, which is a trace of its own."""
    with span("supervisor sweep", {}, parent=Context()) as begun:
        yield begun


@contextmanager
def decision_span(record: TaskRecord, decision: str) -> Iterator[Span]:
    """Follow what is decided about a task from outside its trace, which it is linked to."""
    facts = {**_task_facts(record), Field.EPOCH: record.task.epoch, Field.DECISION: decision}
    with span(decision, facts, links=links_to(record.order.traceparent)) as begun:
        yield begun


@contextmanager
def _epoch_span(name: str, record: TaskRecord, epoch: Epoch, facts: Facts) -> Iterator[Span]:
    begun_by = next((each.traceparent for each in record.history if each.epoch == epoch - 1), None)
    with span(
        name,
        {**_task_facts(record), **facts, Field.EPOCH: epoch},
        parent=context_of(record.order.traceparent),
        links=links_to(begun_by),
    ) as begun:
        yield begun


def _task_facts(record: TaskRecord) -> Facts:
    return {Field.TASK: record.order.task, Field.WORKFLOW: record.order.workflow}
