"""The tables of a run: the counts of one order and the price of a million, in `docs/performance.md`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from local.platform import ROOT

#: An instance's memory in GB, as the templates choose it.
_MEMORY = 2
#: MB of log for each execution: a request's row, and a line when it begins and when it ends, of 1 KB each.
_LOG_MEGABYTES = 0.003
PAGE = ROOT / "docs" / "performance.md"

_PRICES: dict[str, Any] = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))
_ROWS = {
    "executions": "executions of functions",
    "transactions": "transactions of the state store",
    "messages": "messages",
    "episodes": "episodes of the orchestrator",
    "activities": "activities",
    "cpu": "host's CPU, s",
}
#: The workloads that are compared with plain apps: by name, with their steps.
_STEPS = {"orders": 1, "five steps": 5}


@dataclass(frozen=True, slots=True)
class CountedOrder:
    """The counts of one order; `cpu` is the host's, in seconds, of many orders at once."""

    name: str
    executions: float
    transactions: float
    messages: float
    episodes: float
    activities: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Meter:
    """One meter of Azure's bill: its key in the list of prices, and how its figure is known."""

    key: str
    name: str
    known: str


GIGABYTE_SECONDS = Meter(
    "gigabyte_seconds",
    "GB-seconds",
    "lower bound: 2 GB times the host's CPU time; waiting is billed, too",
)
EXECUTIONS = Meter("executions", "executions", "counted")
TRANSACTIONS = Meter("table_transactions", "state store: transactions", "counted, one order at a time")
MESSAGES = Meter("messages", "Service Bus: operations", "counted messages times 3")
HUB_REQUESTS = Meter(
    "hub_requests",
    "task hub in Azure Storage: requests",
    "3 (1 + 2 activities) + 2 episodes + 2, without polling",
)
ACTIONS = Meter("actions", "or Durable Task Scheduler: actions", "1 + 2 activities")
LOGS = Meter("log_gigabytes", "telemetry, MB", "upper bound: 3 KB times executions; the host samples")
METERS = (GIGABYTE_SECONDS, EXECUTIONS, TRANSACTIONS, MESSAGES, HUB_REQUESTS, ACTIONS, LOGS)

type Used = Mapping[Meter, float]


def of_ours(order: CountedOrder) -> Used:
    """Return the use of one order. A deployment has one of the two back ends of Durable Functions."""
    # The Durable Task Scheduler dispatches the start, each activity and its result.
    actions = 1 + 2 * order.activities
    return {
        GIGABYTE_SECONDS: _MEMORY * order.cpu,
        EXECUTIONS: order.executions,
        TRANSACTIONS: order.transactions,
        MESSAGES: 3 * order.messages,
        HUB_REQUESTS: 3 * actions + 2 * order.episodes + 2,
        ACTIONS: actions,
        LOGS: _LOG_MEGABYTES * order.executions,
    }


def of_plain(steps: int, ours: CountedOrder) -> Used:
    """Return the use of the same order as a plain Durable Functions app.

    That is a request, and an orchestrator with an activity for each step: no queue of submissions, no record
    beside the history, no Supervisor, no undo. Its compute was not measured; it is ours at the most.
    """
    episodes = steps + 1
    executions = 1 + episodes + steps
    return of_ours(CountedOrder(ours.name, executions, 0, 0, episodes, steps, ours.cpu))


def tables(counted: Sequence[CountedOrder]) -> list[str]:
    """Return the counts of one order, and the units and price of a million."""
    ours = {each.name: of_ours(each) for each in counted}
    plain = {
        f"{each.name}, plain": of_plain(_STEPS[each.name], each) for each in counted if each.name in _STEPS
    }
    return [_counted(counted), _costs(ours | plain)]


def read_counted(text: str) -> list[CountedOrder]:
    """Read what was counted back from the page."""
    [names] = re.findall(r"^\| one order \|(.*)\|$", text, re.MULTILINE)
    columns = [[float(cell) for cell in _cells(text, label)] for label in _ROWS.values()]
    return [
        CountedOrder(name.strip(), *values) for name, *values in zip(names.split("|"), *columns, strict=True)
    ]


def page(counted: Sequence[CountedOrder]) -> str:
    """Return the page with these tables instead of those that begin with the same cell."""
    text = PAGE.read_text(encoding="utf-8")
    for table in tables(counted):
        first = re.escape(table.partition(" | ")[0])
        text = re.sub(rf"^{first} \|.*(\n\|.*)*", table, text, flags=re.MULTILINE)
    return text


def dollars(used: Used, *, instead_of: Meter) -> float:
    """Return the cost of a million orders without one back end, and without meters that have no price."""
    return sum(figure * (_price(meter) or 0) for meter, figure in used.items() if meter is not instead_of)


def _counted(counted: Sequence[CountedOrder]) -> str:
    assert [each.name for each in fields(CountedOrder)] == ["name", *_ROWS]  # noqa: S101 - each has its row
    rows = [[label, *(f"{getattr(each, name):g}" for each in counted)] for name, label in _ROWS.items()]
    return _table(["one order", *(each.name for each in counted)], rows)


def _costs(used: dict[str, Used]) -> str:
    rows = []
    for meter in METERS:
        cells = [_figure(meter, each[meter]) for each in used.values()]
        price = _PRICES["prices"][meter.key]
        amount = "look it up" if price["price"] is None else f"{price['price']:g}"
        rows.append([meter.name, *cells, meter.known, f"[{amount}]({price['source']}) {price['unit']}"])
    for label, other, known in (
        ("all, on Azure Storage", ACTIONS, "without the charges while idle"),
        ("all, on the Scheduler", HUB_REQUESTS, "without its actions"),
    ):
        sums = [f"**${dollars(each, instead_of=other):,.0f}**" for each in used.values()]
        rows.append([f"**{label}**", *sums, known, ""])
    price = f"{_PRICES['currency']}, {_PRICES['date']}: {_PRICES['region']}"
    return _table(["a million", *used, "how it is known", price], rows)


def _figure(meter: Meter, figure: float) -> str:
    price = _price(meter)
    return f"{figure:.3g}" if price is None else f"{figure:.3g}: ${figure * price:,.2f}"


def _price(meter: Meter) -> float | None:
    price: float | None = _PRICES["prices"][meter.key]["price"]
    return price


def _cells(text: str, label: str) -> list[str]:
    [cells] = re.findall(rf"^\| {re.escape(label)} \|(.*)\|$", text, re.MULTILINE)
    return str(cells).split("|")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first, *others = (f"| {' | '.join(line)} |" for line in (head, *rows))
    return "\n".join([first, "|" + "---|" * len(head), *others])
