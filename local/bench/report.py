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
from local.platform import PartName

_GIBIBYTE = 1024**3
_PACKAGES = ("azure-functions-durable", "azure-data-tables", "azure-servicebus", "fastapi")

type _Cell = Callable[[WorkloadMeasured], str]
type _Phase = Callable[[WorkloadMeasured], OrdersMeasured]


def report(measured: BenchResult) -> Table:
    """Return the table to print: a column for each workload."""
    workloads = measured.workloads
    table = Table("measure", *(each.name for each in workloads), title=f"Orders on {machine()}")

    def add(what: str, cell: _Cell) -> None:
        table.add_row(what, *map(cell, workloads))

    table.add_row("[bold]one at a time")
    _add_phase(add, lambda each: each.alone)
    table.add_section()
    table.add_row(f"[bold]{workloads[0].at_once.count} at once")
    add("accepted", lambda each: f"{each.at_once.accepted_rate:.0f}/s")
    add("submit p50 / p99", lambda each: _percentiles(each.at_once.submit_seconds))
    add("processed", lambda each: f"{each.at_once.finished_rate:.1f} orders/s")
    _add_phase(add, lambda each: each.at_once)
    for part in workloads[0].usage.cpu_seconds:
        table.add_row(
            f"CPU an order, {part}", *(_milliseconds(_cpu_seconds(each, part)) for each in workloads)
        )
    [*_, five_steps] = workloads
    host = _cpu_seconds(five_steps, PartName.HOST)
    for within, share in measured.host_shares.items():
        table.add_row(f"  of it {within}", "", _milliseconds(share * host))
    for part in workloads[0].usage.peak_mebibytes:
        peaks = (f"{each.usage.peak_mebibytes[part]:.0f} MiB" for each in workloads)
        table.add_row(f"peak memory, {part}", *peaks)
    table.add_section()
    table.add_row("import of function_app", f"{measured.start.import_seconds:.2f} s")
    table.add_row("platform's start until ready", f"{measured.start.ready_seconds:.2f} s")
    table.add_row("Durable engine alone, one activity", f"{measured.engine_one_activity:.0f}/s")
    table.add_row("Durable engine alone, five activities", f"{measured.engine_five_activities:.0f}/s")
    table.caption = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return table


def _add_phase(add: Callable[[str, _Cell], None], phase: _Phase) -> None:
    """Add what is known of each phase: how long an order took, and what it cost."""
    add("end to end p50 / p99", lambda each: _percentiles(phase(each).end_to_end_seconds))
    add("table transactions an order", _per_order(phase, lambda each: each.figures.transactions))
    add("rows written an order", _per_order(phase, lambda each: each.figures.operations))
    add("table reads an order", _per_order(phase, lambda each: each.figures.reads))
    add("messages sent an order", _per_order(phase, lambda each: each.figures.messages))
    add("Durable history events an order", _per_order(phase, lambda each: each.history_events))
    add("function executions an order", _per_order(phase, lambda each: each.figures.executions))
    add("activities an order", _per_order(phase, lambda each: each.figures.activities))


def _per_order(phase: _Phase, count: Callable[[OrdersMeasured], int]) -> _Cell:
    return lambda each: f"{phase(each).per_order(count(phase(each))):.2f}"


def _cpu_seconds(measured: WorkloadMeasured, part: str) -> float:
    return measured.at_once.per_order(measured.usage.cpu_seconds[part])


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _percentiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{percentile(seconds, 50) * 1000:.0f} / {percentile(seconds, 99) * 1000:.0f} ms"


def machine() -> str:
    """Say what this machine is."""
    memory = psutil.virtual_memory().total / _GIBIBYTE
    return f"{psutil.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
