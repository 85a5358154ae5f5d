"""The benchmark's result as two tables."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version

import psutil
from rich.table import Table

from local.bench.door import BATCH_SIZE, DoorAnswers
from local.bench.orders import OrdersMeasured
from local.bench.run import BenchResult
from local.callers.summary import percentile
from local.platform.parts import HOSTS, PartName

_GIBIBYTE = 1024**3
_PACKAGES = ("azure-functions-durable", "azure-data-tables", "azure-servicebus", "fastapi")


def orders_report(measured: BenchResult) -> Table:
    """Return the table of the orders, with a column for each workload."""
    workloads = measured.workloads
    table = Table("measure", *(each.name for each in workloads), title=f"Orders on {_machine()}")
    for phase in workloads[0].phases:
        table.add_row(f"[bold]{phase}")
        columns = [_rows(each.phases[phase]) for each in workloads]
        for measure in columns[0]:
            table.add_row(measure, *(column[measure] for column in columns))
        table.add_section()
    table.add_row("[bold]after these orders")
    for process in workloads[0].resident:
        table.add_row(f"memory, {process}", *(f"{each.resident[process]:.0f} MiB" for each in workloads))
    pauses = (f"{each.longest_pause * 1000:.1f} ms" for each in workloads)
    table.add_row("longest garbage collection (CPU)", *pauses)
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


def _rows(phase: OrdersMeasured) -> dict[str, str]:
    cpu_seconds = dict(phase.cpu_seconds)
    if PartName.HOST_2 in cpu_seconds:
        cpu_seconds["all hosts"] = sum(cpu_seconds.get(host, 0.0) for host in HOSTS)
    counts = {
        **{f"CPU an order, {name} (ms)": spent * 1000 for name, spent in cpu_seconds.items()},
        "table transactions an order": phase.figures.transactions,
        "rows written an order": phase.figures.operations,
        "table reads an order": phase.figures.reads,
        "messages sent an order": phase.figures.messages,
        "Durable history events an order": phase.history_events,
        "function executions an order": phase.figures.executions,
        "activities an order": phase.figures.activities,
    }
    return {
        "accepted": f"{phase.accepted_rate:.0f}/s",
        "submit p50 / p99": _percentiles(phase.submit_seconds),
        "processed": f"{phase.finished_rate:.1f} orders/s",
        "end to end p50 / p99": _percentiles(phase.end_to_end_seconds),
        **{measure: f"{phase.per_order(count):.2f}" for measure, count in counts.items()},
    }


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
