"""Work on a task lies in its order's trace, and is linked to what began its epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.records import TaskRecord
from functions.telemetry.spans import decision_span, run_steps_span, step_span, sweep_span
from tests.fakes.interventions import recovery, supervised
from tests.fakes.tasks import FIRST, SECOND, claimed, pending, started, told
from tests.fakes.workflows import LINE, TASK, each, workflow
from tests.unit.telemetry.conftest import Spans, links_of, parent_of, traceparent_of

ORDERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SUPERVISORS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _order() -> TaskRecord:
    record = pending(LINE)
    return replace(record, order=replace(record.order, traceparent=ORDERS))


def _recovered() -> TaskRecord:
    running = told(_order(), claimed(), started("pick"))
    return supervised(running, replace(recovery(), traceparent=SUPERVISORS))


def test_step_lies_in_the_orders_trace(spans: Spans) -> None:
    """Although the Scheduler hands it no context; it tells task, epoch, step, Agent and direction."""
    with step_span(_order(), LINE.shape.steps[0], FIRST):
        pass
    step = spans.one("step pick")
    assert traceparent_of(step)[:35] == ORDERS[:35]
    assert parent_of(step) == ORDERS[36:52]
    assert dict(step.attributes or {}) == {
        "task.id": TASK,
        "task.workflow": "line",
        "task.epoch": 1,
        "step.name": "pick",
        "step.agent": "pick",
        "step.direction": "do",
    }
    assert links_of(step) == []


def test_items_are_told_apart_by_their_number(spans: Spans) -> None:
    """They have their step's name: a view of all its spans is one of few names."""
    record = pending(workflow(each("send")))
    with step_span(record, record.steps[2].shape, FIRST):
        pass
    attributes = spans.one("step send").attributes or {}
    assert (attributes["step.name"], attributes["step.item"]) == ("send", 2)


def test_recovered_epoch_is_linked_to_the_supervisor(spans: Spans) -> None:
    """Runs and steps alike; a late turn of the epoch before is not."""
    record = _recovered()
    with run_steps_span(record, SECOND), step_span(record, LINE.shape.steps[0], SECOND):
        pass
    with step_span(record, LINE.shape.steps[1], FIRST):
        pass
    assert links_of(spans.one("run_steps")) == links_of(spans.one("step pick")) == [SUPERVISORS]
    late = spans.one("step send")
    assert links_of(late) == []
    assert (late.attributes or {})["task.epoch"] == 1


def test_decision_is_a_part_of_the_sweep_and_linked_to_the_order(spans: Spans) -> None:
    """The sweep is a trace of its own, wherever it was begun."""
    with run_steps_span(_order(), FIRST), sweep_span(), decision_span(_order(), "recover"):
        pass
    sweep, decision = spans.one("supervisor sweep"), spans.one("recover")
    assert sweep.parent is None
    assert parent_of(decision) == traceparent_of(sweep)[36:52]
    assert links_of(decision) == [ORDERS]
    assert (decision.attributes or {})["task.decision"] == "recover"


@pytest.mark.parametrize(
    "traceparent", [None, "", "00-1-2-3", "x" * 55, "00-" + 32 * "0" + "-00f067aa0ba902b7-01"]
)
def test_order_without_a_usable_trace_begins_one(spans: Spans, traceparent: str | None) -> None:
    """It was recorded while nothing was exported."""
    record = _order()
    with run_steps_span(replace(record, order=replace(record.order, traceparent=traceparent)), FIRST):
        pass
    assert spans.one("run_steps").parent is None
