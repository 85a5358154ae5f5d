"""Writes into `docs/scale.md` what a rate of orders needs of each part: `python -m local.scale_page`.

It is computed from what an order costs, as measured (`docs/performance.md`), and from Azure's limits.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from local.cost.model import durable_actions

_DOCS = Path(__file__).parents[1] / "docs"
PAGE, _MEASURED = _DOCS / "scale.md", _DOCS / "performance.md"

#: The table stands between these lines of the page.
BEGIN, END = "<!-- computed by local/scale_page.py -->", "<!-- end -->"

_RATES = (100, 1_000, 10_000)
#: How much of a limit may be used: load is never even, and Azure's targets are no promises.
_USED = 0.7
#: What the templates make when nothing is chosen.
_DEFAULT_SHARDS, _DEFAULT_INSTANCES = 16, 40


@dataclass(frozen=True, slots=True)
class OrderCost:
    """What one order costs. `cpu` is the host's, in seconds; `events` are of its Durable history."""

    rows: float
    messages: float
    events: float
    activities: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of one unit of a part: how many a second it takes, and how many of those an order costs.

    By default there are so many units; `most` is how many there can be.
    """

    part: str
    unit: str
    takes: float
    cost: Callable[[OrderCost], float]
    source: str
    default: int = 1
    most: int | None = None

    def units(self, rate: float, cost: OrderCost) -> int:
        """Give how many units are needed for so many orders a second."""
        return ceil(rate * self.cost(cost) / (self.takes * _USED))

    def reached(self, cost: OrderCost) -> float:
        """Give the orders a second at which the default is used up."""
        return self.takes * self.default / self.cost(cost)


LIMITS = (
    Limit(
        "Service Bus, Standard: namespaces",
        "1,000 credits a second: one to send a message, one to receive it",
        1_000,
        lambda cost: 2 * cost.messages,
        "https://learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling",
        most=1,
    ),
    Limit(
        "or an event hub: throughput units",
        "1,000 events a second",
        1_000,
        lambda _: 1,
        "https://learn.microsoft.com/azure/event-hubs/event-hubs-scalability",
        most=32,
    ),
    Limit(
        "state store: accounts",
        "20,000 rows a second",
        20_000,
        lambda cost: cost.rows,
        "https://learn.microsoft.com/azure/storage/tables/scalability-targets",
        most=64,
    ),
    Limit(
        "state store: shards",
        "2,000 rows a second",
        2_000,
        lambda cost: cost.rows,
        "https://learn.microsoft.com/azure/storage/tables/scalability-targets",
        default=_DEFAULT_SHARDS,
        most=256,
    ),
    Limit(
        "Durable in Azure Storage: task hubs",
        "2,000 activities a second, on its one queue",
        2_000,
        lambda cost: cost.activities,
        "https://learn.microsoft.com/azure/storage/queues/scalability-targets",
        most=1,
    ),
    Limit(
        "Durable in Azure Storage: accounts",
        "20,000 rows of history a second",
        20_000,
        lambda cost: cost.events,
        "https://learn.microsoft.com/azure/storage/tables/scalability-targets",
        most=1,
    ),
    Limit(
        "or Durable Task Scheduler: capacity units",
        "2,000 actions a second",
        2_000,
        lambda cost: durable_actions(cost.activities, cost.messages > 1),
        "https://learn.microsoft.com/azure/azure-functions/durable/durable-task-scheduler/durable-task-scheduler-dedicated-sku",
        most=3,
    ),
    Limit(
        "instances of 2 GB",
        "one core",
        1,
        lambda cost: cost.cpu,
        "https://learn.microsoft.com/azure/azure-functions/flex-consumption-plan",
        default=_DEFAULT_INSTANCES,
        most=1_000,
    ),
)
#: What is chosen instead of another part: no default.
_INSTEAD = "or "


def costs() -> tuple[OrderCost, OrderCost]:
    """Read from the page what an order of `orders` costs, and one of five steps, as it is now."""
    text = _MEASURED.read_text(encoding="utf-8")
    names = ("rows written", "messages", "Durable history events", "activities", "CPU an order, host")
    rows, messages, events, activities, cpu = (_cells(text, name) for name in names)
    orders, steps = (
        OrderCost(rows[now], messages[now], events[now], activities[now], cpu[now] / 1_000) for now in (1, 3)
    )
    return orders, steps


def _cells(text: str, name: str) -> list[float]:
    """Read a row of the measured figures; of a span, its upper end."""
    line = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", text, re.MULTILINE)[0]
    return [float(re.findall(r"[\d.]+", cell)[-1]) for cell in line.split("|")]


def table() -> str:
    """Give both tables."""
    orders, steps = costs()
    lines = [
        f"| part, and what one takes | {' | '.join(f'{rate:,}/s' for rate in _RATES)} |",
        f"|---|{'---|' * len(_RATES)}",
    ]
    for limit in LIMITS:
        needs = (_need(limit, rate, orders, steps) for rate in _RATES)
        lines.append(f"| {limit.part} ([{limit.unit}]({limit.source})) | {' | '.join(needs)} |")
    lines += [
        "",
        "| what the default deployment reaches, the lowest first | orders/s | five steps/s |",
        "|---|---|---|",
    ]
    defaults = [limit for limit in LIMITS if not limit.part.startswith(_INSTEAD)]
    for limit in sorted(defaults, key=lambda each: each.reached(steps)):
        lines.append(
            f"| {limit.part}, {limit.default}: {limit.unit} | {limit.reached(orders):,.0f}"
            f" | {limit.reached(steps):,.0f} |"
        )
    return "\n".join(lines)


def _need(limit: Limit, rate: int, orders: OrderCost, steps: OrderCost) -> str:
    units = [limit.units(rate, cost) for cost in (orders, steps)]
    return " / ".join(
        f"**{each}**" if limit.most is not None and each > limit.most else str(each) for each in units
    )


def page() -> str:
    """Give the page with the tables as they are computed now."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    """Write the page and return the exit code."""
    argparse.ArgumentParser(prog="python -m local.scale_page", description=__doc__).parse_args()
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
