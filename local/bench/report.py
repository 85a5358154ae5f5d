"""The benchmark's result as one table."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version

import psutil
from rich.table import Table

from local.bench.orders import OrdersMeasured
from local.bench.run import BenchResult, WorkloadMeasured
from local.callers.summary import percentile

_GIBIBYTE = 1024**3
_PACKAGES = ("azure-functions-durable", "azure-data-tables", "azure-servicebus", "fastapi")

type _Cell = Callable[[WorkloadMeasured], str]


def report(measured: BenchResult) -> Table:
    """Return the table to print: a column for each workload."""
    workloads = measured.workloads
    table = Table("measure", *(each.name for each in workloads), title=f"An order's way on {_machine()}")

    def add(what: str, cell: _Cell) -> None:
        table.add_row(what, *map(cell, workloads))

    add("end to end p50 / p99, one at a time", lambda each: _end_to_end(each.alone))
    _add_cost(add, "one at a time", lambda each: each.alone)
    table.add_section()
    count = workloads[0].at_once.count
    add(f"{count} at once, accepted", lambda each: f"{each.at_once.accepted_rate:.0f}/s")
    add("submit p50 / p99", lambda each: _percentiles(each.at_once.submit_seconds))
    add("processed", lambda each: f"{each.at_once.finished_rate:.1f} orders/s")
    add("end to end p50 / p99", lambda each: _end_to_end(each.at_once))
    _add_cost(add, f"{count} at once", lambda each: each.at_once)
    for part in workloads[0].usage.cpu_seconds:
        add(f"CPU an order, {part}", lambda each, part=part: _cpu(each, part))  # type: ignore[misc]
    for part in workloads[0].usage.peak_mebibytes:
        add(f"peak memory, {part}", lambda each, part=part: f"{each.usage.peak_mebibytes[part]:.0f} MiB")  # type: ignore[misc]
    table.add_section()
    table.add_row("import of function_app", f"{measured.start.import_seconds:.2f} s")
    table.add_row("platform's start until ready", f"{measured.start.ready_seconds:.2f} s")
    table.add_row("Durable engine alone, one activity", f"{measured.engine_one_activity:.0f}/s")
    table.add_row("Durable engine alone, five activities", f"{measured.engine_five_activities:.0f}/s")
    table.caption = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return table


def _add_cost(
    add: Callable[[str, _Cell], None], what: str, phase: Callable[[WorkloadMeasured], OrdersMeasured]
) -> None:
    counts: dict[str, Callable[[OrdersMeasured], int]] = {
        "table write transactions": lambda each: each.figures.transactions,
        "rows written": lambda each: each.figures.operations,
        "table reads": lambda each: each.figures.reads,
        "messages sent": lambda each: each.figures.messages,
        "Durable history events": lambda each: each.history_events,
        "activities": lambda each: each.figures.activities,
    }
    for name, count in counts.items():

        def cell(each: WorkloadMeasured, count: Callable[[OrdersMeasured], int] = count) -> str:
            return f"{phase(each).per_order(count(phase(each))):.2f}"

        add(f"an order's {name}, {what}", cell)


def _cpu(measured: WorkloadMeasured, part: str) -> str:
    return f"{measured.at_once.per_order(measured.usage.cpu_seconds[part]) * 1000:.1f} ms"


def _end_to_end(measured: OrdersMeasured) -> str:
    return _percentiles(measured.end_to_end_seconds)


def _percentiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{percentile(seconds, 50) * 1000:.0f} / {percentile(seconds, 99) * 1000:.0f} ms"


def _machine() -> str:
    memory = psutil.virtual_memory().total / _GIBIBYTE
    return f"{psutil.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
