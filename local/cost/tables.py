"""The tables of a run: the counts of one order and the price of a million, in `docs/performance.md`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from local.cost.counting import CountedOrder
from local.cost.model import ACTIONS, HUB_REQUESTS, METERS, Meter, Used, of_ours, of_plain
from local.platform import ROOT

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
    """Sum up what a million orders cost, but for one of the two back ends; what has no price is left out."""
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
