"""The benchmark's result as one table."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version

import psutil
from rich.table import Table

from local.bench.orders import OrdersMeasured
from local.bench.run import BenchResult
from local.callers.summary import percentile

_GIBIBYTE = 1024**3
_PACKAGES = ("azure-functions-durable", "azure-data-tables", "azure-servicebus", "fastapi")


def report(measured: BenchResult) -> Table:
    """Return the table to print."""
    many = measured.many
    table = Table("measure", "value", title=f"{many.count} orders at once on {_machine()}")
    table.add_row("requests accepted", f"{many.accepted_rate:.0f}/s")
    table.add_row("submit p50 / p99", _percentiles(many.submit_seconds))
    table.add_row("end to end", f"{many.finished_rate:.1f} orders/s")
    table.add_row("end to end p50 / p99", _percentiles(many.end_to_end_seconds))
    table.add_row("end to end p50 / p99, one at a time", _percentiles(measured.single.end_to_end_seconds))
    table.add_section()
    _add_engine(table, "1 activity, as an order has", measured.engine_one_activity, many.finished_rate)
    _add_engine(table, "5 activities", measured.engine_five_activities, many.finished_rate)
    table.add_section()
    _add_cost(table, "one at a time", measured.single)
    _add_cost(table, f"{measured.in_flight.count} in flight", measured.in_flight)
    table.add_section()
    for process, mebibytes in measured.peak_memory.items():
        table.add_row(f"peak memory, {process}", f"{mebibytes:.0f} MiB")
    table.caption = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return table


def _add_engine(table: Table, what: str, engine: float, end_to_end: float) -> None:
    ratio = f"end to end is {end_to_end / engine:.2f} of it"
    table.add_row(f"Durable engine alone, {what}", f"{engine:.0f} orchestrations/s; {ratio}")


def _add_cost(table: Table, what: str, measured: OrdersMeasured) -> None:
    figures = measured.figures
    counts = {
        "table write transactions": figures.transactions,
        "table entity operations": figures.operations,
        "table reads": figures.reads,
        "messages sent": figures.messages,
        "orchestrator episodes": figures.episodes,
        "activities": figures.activities,
    }
    for name, counted in counts.items():
        table.add_row(f"an order's {name}, {what}", f"{measured.per_order(counted):.2f}")


def _percentiles(seconds: Sequence[float]) -> str:
    return f"{percentile(seconds, 50) * 1000:.0f} / {percentile(seconds, 99) * 1000:.0f} ms"


def _machine() -> str:
    memory = psutil.virtual_memory().total / _GIBIBYTE
    return f"{psutil.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
