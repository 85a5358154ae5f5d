"""The door's measurements as a table of their own."""

from __future__ import annotations

from rich.table import Table

from local.bench.door.measure import DoorMeasured
from local.bench.door.requests import BATCH_SIZE, DoorAnswers
from local.callers.summary import percentile


def door_report(measured: DoorMeasured) -> Table:
    """Return the table: what the door does with the platform behind it, and without."""
    table = Table("the door", "with the platform", "the application alone")
    puts, batches, spike = measured.puts, measured.batches, measured.spike
    _add(table, "PUT of one order", puts, measured.alone.puts)
    bare = f"{_rate(measured.bare)}, {measured.bare.rate / puts.rate:.1f} times"
    table.add_row("  bare FastAPI route on the same host", bare)
    table.add_section()
    _add(table, f"batches of {BATCH_SIZE}, the application makes ids", batches, measured.alone.batches)
    for part, seconds in measured.cpu_seconds.items():
        table.add_row(f"  CPU an order, {part}", f"{seconds / len(batches.accepted) * 1e6:.0f} µs")
    _add(table, f"batches of {BATCH_SIZE}, the caller gives ids", measured.named)
    table.add_section()
    _add(table, f"a spike of {len(spike.accepted) + spike.refused} orders", spike, measured.alone.spike)
    table.add_row("  not accepted, lost", f"{spike.refused}, {measured.lost}")
    table.add_section()
    table.add_row("slowest GET /api/health", f"{measured.quiet_health * 1000:.0f} ms")
    for name, seconds in measured.health.items():
        table.add_row(f"  while batches are refused: {name}", f"{seconds * 1000:.0f} ms")
    return table


def _add(table: Table, what: str, *measured: DoorAnswers) -> None:
    table.add_row(what, *map(_rate, measured))
    table.add_row("  a request, p50 / p99", *map(_percentiles, measured))


def _rate(answers: DoorAnswers) -> str:
    return f"{answers.rate:,.0f}/s"


def _percentiles(answers: DoorAnswers) -> str:
    p50, p99 = (percentile(answers.seconds, percent) * 1000 for percent in (50, 99))
    return f"{p50:.1f} / {p99:.1f} ms"
