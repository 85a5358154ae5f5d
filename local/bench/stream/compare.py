"""The queue beside the hub: orders at once, and steadily, by turns on one platform."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from local.bench.processes import usage_of
from local.bench.progress import Phase, Phases
from local.bench.stream.evidence import EndedTask, RecordedOrder, any_unfinished
from local.bench.stream.producers import SentOrders, SubmissionWay, Ways, send_at_once, send_steadily
from local.callers.summary import percentile
from local.platform import PartName, Platform

_LOOK_EVERY = 0.5
#: Orders a second: below what two cores carry out while other work takes a part of them.
PER_SECOND = 25
_IDLE_LOOKS = 4
#: Turns of each way.
_TURNS = 2
_WARM_UP = 100


@dataclass(frozen=True, slots=True)
class WayMeasured:
    """The measurements of one way; the tasks are looked up in the evidence afterwards."""

    at_once: SentOrders
    at_once_tasks: Sequence[str]
    cpu_seconds: Mapping[str, float]
    steady: Sequence[SentOrders]
    steady_tasks: Sequence[str]


async def compare(platform: Platform, ways: Ways, orders: int, phases: Phases) -> Mapping[str, WayMeasured]:
    """Measure both ways: `orders` at once, and a quarter of them steadily."""
    storage = platform.addresses.storage_connection
    named = {"queue": ways.queue, "hub": ways.hub}
    for name, way in named.items():
        await send_at_once(way, [f"warm-{name}-{number}" for number in range(_WARM_UP)])
    await until_idle(storage)
    steady: dict[str, list[SentOrders]] = {name: [] for name in named}
    steady_tasks: dict[str, list[str]] = {name: [] for name in named}
    for turn in range(_TURNS):
        for name, way in named.items():
            tasks = [f"steady-{name}-{turn}-{number}" for number in range(max(1, orders // 4 // _TURNS))]
            phase = phases.begin(f"{name}, {PER_SECOND} orders a second", len(tasks))
            steady[name].append(await send_steadily(way, tasks, PER_SECOND, phase.show))
            steady_tasks[name] += tasks
            await until_idle(storage)
    measured = dict[str, WayMeasured]()
    for name, way in named.items():
        tasks = [f"at-once-{name}-{number}" for number in range(orders)]
        phase = phases.begin(f"{name}, orders at once", orders)
        at_once, cpu_seconds = await _at_once(platform, way, tasks, phase)
        measured[name] = WayMeasured(at_once, tasks, cpu_seconds, steady[name], steady_tasks[name])
    return measured


async def _at_once(
    platform: Platform, way: SubmissionWay, tasks: Sequence[str], phase: Phase
) -> tuple[SentOrders, Mapping[str, float]]:
    parts = {str(part): platform.pid(part) for part in (PartName.AZURITE, PartName.BROKER, PartName.HOST)}
    async with usage_of(parts) as usage:
        accepted = await send_at_once(way, tasks, phase.show)
        await until_idle(platform.addresses.storage_connection)
    return accepted, usage.cpu_seconds


async def until_idle(storage: str) -> None:
    """Wait until no task is under way in several looks: what was accepted last may not be recorded yet."""
    idle = 0
    while idle < _IDLE_LOOKS:
        idle = 0 if await any_unfinished(storage) else idle + 1
        await asyncio.sleep(_LOOK_EVERY)


def rate(found: Sequence[tuple[RecordedOrder, EndedTask]], *, finished: bool) -> float:
    """Give the orders recorded, or finished, a second since the first was submitted."""
    first = min(order.submitted_at for order, _ in found)
    ends = [(task.finished_at if finished else order.recorded_at) for order, task in found]
    last = max(end for end in ends if end is not None)
    return len(found) / (last - first).total_seconds()


def waits(found: Sequence[tuple[RecordedOrder, EndedTask]], percent: float, *, finished: bool) -> float:
    """Give a percentile of the seconds from submission until orders are recorded, or finished."""
    seconds = [
        (end - order.submitted_at).total_seconds()
        for order, task in found
        if (end := task.finished_at if finished else order.recorded_at) is not None
    ]
    return percentile(seconds, percent)
