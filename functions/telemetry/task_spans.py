"""Spans of the runs and steps of a task, in the trace of its order.

Durable Functions passes Python no trace, so a run continues the trace that is recorded with the order.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from opentelemetry.context import get_current
from opentelemetry.trace import Span

from functions.core.record import TaskRecord
from functions.telemetry.fields import Facts, Field
from functions.telemetry.spans import context_of, facts_of, links_to, span


def run_span(task: str, workflow: str, epoch: int, traceparent: str | None) -> AbstractContextManager[Span]:
    """Return the span of a run of the Scheduler of `epoch`.

    `traceparent` (W3C) is the span of the submission. Without a usable one, the run begins a trace.
    """
    facts: Facts = {Field.TASK: task, Field.WORKFLOW: workflow, Field.EPOCH: epoch}
    return span("run_agents", facts, parent=context_of(traceparent))


def step_span(step: str, item: int | None, *, agent: str, direction: str) -> AbstractContextManager[Span]:
    """Return the span of a call, a request or a look-up, below the span of its run and with its facts.

    `item` is the number of the item of a for-each step, from 0.
    """
    facts: Facts = {
        **facts_of(get_current()),
        Field.STEP: step,
        **({} if item is None else {Field.ITEM: item}),
        Field.AGENT: agent,
        Field.DIRECTION: direction,
    }
    return span(f"step {step}", facts)


def decision_span(record: TaskRecord, decision: str) -> AbstractContextManager[Span]:
    """Return the span of a decision about a task, linked to the trace of the task."""
    facts: Facts = {
        Field.TASK: record.order.task,
        Field.WORKFLOW: record.order.workflow,
        Field.EPOCH: record.epoch,
        Field.DECISION: decision,
    }
    return span(decision, facts, links=links_to(record.order.traceparent))
