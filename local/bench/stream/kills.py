"""`kill -9` of host and broker while the hub is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from functions.pattern.errors import TransientError
from functions.pattern.hub_positions import lag_of
from local.bench.progress import Phase
from local.checkpoints import HubReaders
from local.platform import PartName, Platform

_LOOK_EVERY = 0.5

#: What is killed when which part of the events was taken.
KILLS: Sequence[tuple[float, Sequence[PartName]]] = (
    (0.35, (PartName.HOST,)),
    (0.55, (PartName.BROKER,)),
    (0.75, (PartName.HOST, PartName.BROKER)),
)


async def kill(platform: Platform, parts: Sequence[PartName]) -> None:
    """Kill parts, and start them again."""
    for part in parts:
        await platform.kill(part)
    for part in reversed(parts):
        await platform.start(part)


async def taken(readers: HubReaders) -> int:
    """Count the events that are taken; none while the storage does not answer."""
    try:
        return sum(number + 1 for number in (await readers.positions.checkpoints()).values())
    except TransientError:
        return 0


async def until_taken(readers: HubReaders, count: int, phase: Phase) -> None:
    """Wait until so many events are taken."""
    while (done := await taken(readers)) < count:
        phase.show(done)
        await asyncio.sleep(_LOOK_EVERY)
    phase.show(count)


async def until_all_taken(readers: HubReaders) -> None:
    """Wait until nothing waits in the hub, which may have more than was sent: what is sent again."""
    while True:
        try:
            checkpoints = await readers.positions.checkpoints()
            partitions = await readers.positions.partitions()
        except TransientError:
            partitions, checkpoints = [], {}
        if partitions and not any(lag_of(each, checkpoints.get(each.id)).waiting for each in partitions):
            return
        await asyncio.sleep(_LOOK_EVERY)


async def take_with_kills(
    platform: Platform, readers: HubReaders, count: int, phase: Phase, say: Callable[[str], None]
) -> int:
    """Wait until so many events are taken, and kill parts on the way; give how often."""
    for part, names in KILLS:
        await until_taken(readers, int(part * count), phase)
        say(f"kill -9 of {' and '.join(names)} at {await taken(readers)} events")
        await kill(platform, names)
    await until_taken(readers, count, phase)
    await until_all_taken(readers)
    return len(KILLS) + 1
