"""The benchmark's result as two tables."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version

import psutil
from rich.table import Table

from local.bench.door import BATCH_SIZE, DoorAnswers
from local.bench.orders import OrdersMeasured
from local.bench.run import BenchResult, WorkloadMeasured
from local.callers.summary import percentile

_GIBIBYTE = 1024**3
_PACKAGES = ("azure-functions-durable", "azure-data-tables", "azure-servicebus", "fastapi")

type _Cell = Callable[[WorkloadMeasured], str]
type _Phase = Callable[[WorkloadMeasured], OrdersMeasured]


def orders_report(measured: BenchResult) -> Table:
    """Return the table of the orders, with a column for each workload."""
    workloads = measured.workloads
    table = Table("measure", *(each.name for each in workloads), title=f"Orders on {_machine()}")

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
        cpu = (each.at_once.per_order(each.usage.cpu_seconds[part]) for each in workloads)
        table.add_row(f"CPU an order, {part}", *(f"{seconds * 1000:.1f} ms" for seconds in cpu))
    for part in workloads[0].usage.peak_mebibytes:
        peaks = (f"{each.usage.peak_mebibytes[part]:.0f} MiB" for each in workloads)
        table.add_row(f"peak memory, {part}", *peaks)
    load = ", ".join(f"{each:.1f}" for each in measured.load)
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    table.caption = f"{packages}; load of the machine before: {load}"
    return table


def door_report(measured: BenchResult) -> Table:
    """Return the table of the API alone."""
    door, table = measured.door, Table("the door", "")
    batches, spike = door.batches, door.spike
    _add_answers(table, "PUT of one order", door.puts)
    table.add_section()
    _add_answers(table, f"batches of {BATCH_SIZE}, the application makes ids", batches)
    for part, seconds in door.cpu_seconds.items():
        table.add_row(f"  CPU an order, {part}", f"{seconds / max(1, len(batches.accepted)) * 1e6:.0f} µs")
    _add_answers(table, f"batches of {BATCH_SIZE}, the caller gives ids", door.named)
    table.add_section()
    _add_answers(table, f"a spike of {len(spike.accepted) + spike.refused} orders", spike)
    refused = sum(each.refused for each in (door.puts, batches, door.named, spike))
    table.add_row("not accepted, lost", f"{refused}, {door.lost}")
    return table


def _add_phase(add: Callable[[str, _Cell], None], phase: _Phase) -> None:
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


def _add_answers(table: Table, what: str, answers: DoorAnswers) -> None:
    table.add_row(what, f"{answers.rate:,.0f}/s")
    table.add_row("  a request, p50 / p99", _percentiles(answers.seconds))


def _percentiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{percentile(seconds, 50) * 1000:.0f} / {percentile(seconds, 99) * 1000:.0f} ms"


def _machine() -> str:
    memory = psutil.virtual_memory().total / _GIBIBYTE
    return f"{psutil.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
