"""Runs a story on a platform of its own, from its first moment to its last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack

from tests.simulation.hosts.substitutes import of_chance, of_durable
from tests.simulation.run.platform import Platform
from tests.simulation.world.defects import defects_in
from tests.simulation.world.fate import Fates
from tests.simulation.world.loop import VirtualLoop
from tests.simulation.world.world import World

#: Turns of the loop in which what was cancelled can end.
_LAST_TURNS = 20

type Story[ResultT] = Callable[[Platform], Awaitable[ResultT]]


def simulate[ResultT](
    seed: int | str, fates: Fates, story: Story[ResultT], settings: Mapping[str, str]
) -> tuple[ResultT, World]:
    """Run a story; give its result, and the world in which it took place. Raises `StuckError`."""
    loop = VirtualLoop()
    world = World(seed, loop, fates)
    try:
        return loop.run_until_complete(_tell(world, story, settings)), world
    finally:
        loop.close()


async def _tell[ResultT](world: World, story: Story[ResultT], settings: Mapping[str, str]) -> ResultT:
    platform = Platform(world, settings)
    with ExitStack() as stack:
        stack.enter_context(of_chance(world.chance("application"), world.timestamp))
        stack.enter_context(of_durable(platform.requests.post, platform.requests.delete))
        stack.enter_context(defects_in(world.loop.unhandled))
        try:
            return await story(platform)
        finally:
            await _end(platform)


async def _end(platform: Platform) -> None:
    """End all hosts, and whatever still runs."""
    for host in platform.running.hosts:
        host.on_crash = _nothing
        host.crash()
    for _ in range(_LAST_TURNS):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.sleep(0)


def _nothing() -> None:
    """Start no host again."""
