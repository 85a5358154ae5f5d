"""What was measured, as two tables."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from rich.table import Table

from local.bench.report import machine
from local.bench.stream.compare import PER_SECOND, WayMeasured, rate, waits
from local.bench.stream.run import Recorded, StreamMeasured
from local.callers.summary import percentile

_PACKAGES = ("azure-functions-durable", "azure-data-tables", "azure-servicebus", "azure-eventhub")


def compared(measured: StreamMeasured) -> Table:
    """Return the table with the queue beside the hub."""
    ways = measured.ways
    table = Table("measure", *ways, title=f"Orders of one step on {machine()}")

    def add(what: str, cell: Callable[[WayMeasured], str]) -> None:
        table.add_row(what, *map(cell, ways.values()))

    def times(way: WayMeasured, *, finished: bool) -> str:
        found = measured.compared.of(way.steady_tasks)
        return _milliseconds(*(waits(found, percent, finished=finished) for percent in (50, 99)))

    count = next(iter(ways.values())).at_once.orders
    table.add_row(f"[bold]{count} at once")
    add("accepted", lambda way: f"{way.at_once.rate:,.0f}/s")
    add("  500 together, p50 / p99", lambda way: _percentiles(way.at_once.seconds))
    for what, finished in (("recorded", False), ("processed", True)):
        add(what, lambda way, f=finished: _rate(measured, way, finished=f))  # type: ignore[misc]
    for part in next(iter(ways.values())).cpu_seconds:
        add(
            f"CPU an order, {part}",
            lambda way, p=part: f"{way.cpu_seconds[p] / way.at_once.orders * 1e3:.1f} ms",  # type: ignore[misc]
        )
    table.add_section()
    table.add_row(f"[bold]{PER_SECOND} a second")
    add(
        "until accepted, p50 / p99",
        lambda way: _percentiles([s for each in way.steady for s in each.seconds]),
    )
    add("until recorded, p50 / p99", lambda way: times(way, finished=False))
    add("until processed, p50 / p99", lambda way: times(way, finished=True))
    load = ", ".join(f"{each:.1f}" for each in measured.load)
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    table.caption = f"{packages}; load of the machine before: {load}"
    return table


def on_record(measured: StreamMeasured) -> Table:
    """Return the table of the spike, the kills and the replay."""
    recorded, half = measured.recorded, measured.recorded.events // 2
    evidence = recorded.evidence
    first = rate(evidence.of(f"event-{number}" for number in range(half // 2)), finished=False)
    table = Table("on record", "", title=f"{recorded.events} events of one step")
    table.add_row(f"spike of {half}, accepted in", f"{recorded.spike.whole_seconds:.1f} s")
    table.add_row("  sent again; 500 together, p50 / p99", _spike(recorded))
    table.add_row("  recorded, the first half of it", f"{first:.0f}/s")
    for part, peak in recorded.usage.peak_mebibytes.items():
        table.add_row(f"  peak memory, {part}", f"{peak:.0f} MiB")
    table.add_row("kill -9 of host, broker, or both", f"{recorded.kills} times")
    table.add_row("events that the hub holds, sent again", f"{recorded.in_hub}, {recorded.sent_again}")
    table.add_row("all processed, from the first", f"{recorded.seconds:.0f} s")
    table.add_row("  orders a second", f"{recorded.events / recorded.seconds:.0f}/s")
    failures = ", ".join(f"{failed}: {count}" for failed, count in sorted(evidence.failures.items()))
    table.add_row("tasks by FailureCount", failures)
    table.add_row("replay of all events", f"{recorded.replay_seconds:.0f} s")
    table.add_row("  events a second", f"{recorded.in_hub / recorded.replay_seconds:.0f}/s")
    table.add_row("rows, unchanged by the replay", f"{evidence.rows}")
    table.add_row("faults", "; ".join(recorded.faults) or "none: each order is one task, and Processed")
    return table


def _rate(measured: StreamMeasured, way: WayMeasured, *, finished: bool) -> str:
    return f"{rate(measured.compared.of(way.at_once_tasks), finished=finished):.0f}/s"


def _spike(recorded: Recorded) -> str:
    return f"{recorded.spike.again}; {_percentiles(recorded.spike.seconds)}"


def _percentiles(seconds: list[float]) -> str:
    return _milliseconds(percentile(seconds, 50), percentile(seconds, 99))


def _milliseconds(first: float, second: float) -> str:
    return f"{first * 1000:.0f} / {second * 1000:.0f} ms"
