"""The summary counts the outcomes of each case, and has the figures."""

from __future__ import annotations

import io
from collections import Counter
from datetime import timedelta

import pytest
from rich.console import Console

from local.callers.cases import Case, Submission
from local.callers.client import OrderState, OrderStatus, StepStatus
from local.callers.demo import DemoResult
from local.callers.summary import orders_per_second, percentile, summary
from tests.local.callers.canned_api import SUBMITTED


def _order(order_id: str, state: OrderState, seconds: float | None, case: Case = Case.ORDER) -> OrderStatus:
    finished = SUBMITTED + timedelta(seconds=seconds) if seconds is not None else None
    steps = tuple(StepStatus(name=name, state=of_step) for name, of_step in case.expectation.steps.items())
    return OrderStatus(id=order_id, state=state, submitted_at=SUBMITTED, finished_at=finished, steps=steps)


def _result(*orders: OrderStatus, never_seen: int = 0) -> DemoResult:
    made = [Submission(order.id, Case.ORDER) for order in orders]
    missing = [Submission(f"missing-{number}", Case.ORDER) for number in range(never_seen)]
    return DemoResult(made + missing, {order.id: order for order in orders})


def _printed(result: DemoResult) -> list[list[str]]:
    screen = io.StringIO()
    Console(file=screen, width=160).print(summary(result))
    return [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in screen.getvalue().splitlines()
        if line.startswith("│")
    ]


def test_a_case_that_ended_as_expected_is_ticked() -> None:
    """With its number."""
    submissions = [Submission("a", Case.NEAR), Submission("b", Case.NO_DRONE)]
    orders = {
        "a": _order("a", OrderState.PROCESSED, 1, Case.NEAR),
        "b": _order("b", OrderState.COMPENSATED, 1, Case.NO_DRONE),
    }
    rows = _printed(DemoResult(submissions, orders))
    assert ["✓", "delivery near by, no transport", "1", "Processed", "1 Processed"] in rows
    assert ["✓", "delivery, drone refused", "1", "Compensated", "1 Compensated"] in rows
    assert not [row for row in rows if row[0] == "✗"]


def test_a_case_with_one_exception_is_crossed() -> None:
    """And each exception is named and counted."""
    result = _result(
        _order("a", OrderState.PROCESSED, 0.5),
        _order("b", OrderState.PROCESSED, 0.5),
        _order("c", OrderState.PENDING, None),
        never_seen=1,
    )
    row = ["✗", "order, paid", "4", "Processed", "2 Processed, 1 Pending, 1 never seen"]
    assert row in _printed(result)


def test_what_is_left_behind_is_crossed() -> None:
    """The right state alone is not enough."""
    result = DemoResult(
        [Submission("a", Case.NO_DRONE)],
        {"a": _order("a", OrderState.COMPENSATED, 1, Case.NO_DRONE)},
        leftovers={"a": "there is still something at packages"},
    )
    assert _printed(result)[0][0] == "✗"
    assert _printed(result)[0][-1] == "1 there is still something at packages"


def test_ticks_and_crosses_are_coloured_on_a_terminal() -> None:
    """Green and red."""
    screen = io.StringIO()
    good, bad = _order("a", OrderState.PROCESSED, 1), _order("b", OrderState.ERROR, 1)
    for order in (good, bad):
        console = Console(file=screen, force_terminal=True, color_system="standard", width=160)
        console.print(summary(_result(order)))
    assert "\x1b[32m✓" in screen.getvalue()
    assert "\x1b[31m✗" in screen.getvalue()


def test_figures_are_the_services_own() -> None:
    """From submission to end."""
    result = _result(_order("a", OrderState.PROCESSED, 0.5), _order("b", OrderState.ERROR, 2.0))
    result.submit_seconds, result.batch_seconds = [0.01, 0.02], [0.3]
    result.notices = Counter({"received": 2})
    rows = _printed(result)
    assert ["notices: received", "2"] in rows
    assert ["submit one p50 / p99", "10 ms / 20 ms"] in rows
    assert ["submit a batch p50 / p99", "300 ms / 300 ms"] in rows
    assert ["end to end p50 / p99", "500 ms / 2000 ms"] in rows
    assert ["orders/s", "1.0"] in rows


def test_a_summary_without_any_result_is_still_a_summary() -> None:
    """There is no division by zero."""
    assert ["orders/s", "-"] in _printed(_result(never_seen=1))


def test_orders_per_second_needs_an_end() -> None:
    """From the first submission to the last end."""
    assert orders_per_second([_order("a", OrderState.PENDING, None)]) is None
    ended = [_order("a", OrderState.PROCESSED, 4), _order("b", OrderState.PROCESSED, 2)]
    assert orders_per_second(ended) == 0.5


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    """Nearest rank, over 1 to 100."""
    assert percentile(list(range(100, 0, -1)), percent) == value
