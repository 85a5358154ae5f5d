"""The demo's result as a table: counts by state, percentiles, orders per second."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from local.callers.client import Order
from local.callers.demo import DemoResult

#: A state of the summary only: the order was accepted, but never seen in the state store.
_NEVER_SEEN = "never seen"


def summary(result: DemoResult) -> Table:
    """Return the table to print."""
    table = Table("measure", "value", title=f"{len(result.orders)} orders")
    for state, count in Counter(
        order.state if order else _NEVER_SEEN for order in result.orders.values()
    ).items():
        table.add_row(state, str(count))
    for kind, count in sorted(result.notices.items()):
        table.add_row(f"notices: {kind}", str(count))
    seen = [order for order in result.orders.values() if order]
    end_to_end = [order.seconds for order in seen if order.seconds is not None]
    table.add_row("submit p50 / p99", _percentiles(result.submit_seconds))
    table.add_row("end to end p50 / p99", _percentiles(end_to_end))
    table.add_row("orders/s", f"{rate:.1f}" if (rate := orders_per_second(seen)) else "-")
    return table


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of `values` do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def orders_per_second(orders: Sequence[Order]) -> float | None:
    """Return finished orders per second, from the first submission to the last end; `None` without an end."""
    ends = [order.finished_at for order in orders if order.finished_at]
    if not ends:
        return None
    seconds = (max(ends) - min(order.submitted_at for order in orders)).total_seconds()
    return len(ends) / seconds if seconds > 0 else None


def _percentiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{percentile(seconds, 50) * 1000:.0f} ms / {percentile(seconds, 99) * 1000:.0f} ms"
