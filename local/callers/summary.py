"""The demo's result as tables: the outcome of each case, and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from local.callers.cases import Case, Submission
from local.callers.client import OrderStatus
from local.callers.demo import DemoResult

_TICK = Text("✓", style="green")
_CROSS = Text("✗", style="red")


def summary(result: DemoResult) -> Group:
    """Return the tables to print."""
    return Group(_cases(result), _figures(result))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of `values` do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def orders_per_second(orders: Collection[OrderStatus]) -> float | None:
    """Return finished orders per second, from the first submission to the last end; `None` without an end."""
    ends = [order.finished_at for order in orders if order.finished_at]
    if not ends:
        return None
    seconds = (max(ends) - min(order.submitted_at for order in orders)).total_seconds()
    return len(ends) / seconds if seconds > 0 else None


def _cases(result: DemoResult) -> Table:
    table = Table("", "case", "count", "expected", "outcome", title="Outcome of each case")
    for case in Case:
        tried = [each for each in result.submissions if each.case is case]
        if tried:
            came = _what_came(result, tried)
            good = came.keys() == {case.expectation.state}
            words = ", ".join(f"{count} {what}" for what, count in came.most_common())
            table.add_row(
                _TICK if good else _CROSS, case.label, str(len(tried)), case.expectation.state, words
            )
    return table


def _what_came(result: DemoResult, tried: Sequence[Submission]) -> Counter[str]:
    return Counter(result.unmet(each) or each.case.expectation.state for each in tried)


def _figures(result: DemoResult) -> Table:
    table = Table("measure", "value", title="Figures")
    for kind, count in sorted(result.notices.items()):
        table.add_row(f"notices: {kind}", str(count))
    end_to_end = [order.seconds for order in result.orders.values() if order.seconds is not None]
    rate = orders_per_second(result.orders.values())
    table.add_row("submit one p50 / p99", _percentiles(result.submit_seconds))
    table.add_row("submit a batch p50 / p99", _percentiles(result.batch_seconds))
    table.add_row("end to end p50 / p99", _percentiles(end_to_end))
    table.add_row("orders/s", "-" if rate is None else f"{rate:.1f}")
    return table


def _percentiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{percentile(seconds, 50) * 1000:.0f} ms / {percentile(seconds, 99) * 1000:.0f} ms"
