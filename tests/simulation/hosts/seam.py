"""Where a host meets a service: a request goes there, is carried out, and its answer comes back.

A host that has crashed meets nobody any more: whatever it still does, in `finally` too, has no effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tests.simulation.world.fate import AnswerLostFault, BusyFault, Mishap, NotSentFault, Place
from tests.simulation.world.world import World


class Crashing(Protocol):
    """A host, as its seams know it."""

    name: str
    frozen_until: float

    @property
    def is_up(self) -> bool:
        """Tell whether it has not crashed."""

    def crash(self) -> None:
        """End it at once."""


class Seam:
    """One host's way to one service."""

    def __init__(self, world: World, host: Crashing, place: Place) -> None:
        self._world = world
        self._host = host
        self._place = place

    async def carry_out[ResultT](self, what: str, act: Callable[[], ResultT]) -> ResultT:
        """Have a request carried out. Raises `NotSentFault`, `AnswerLostFault` and `BusyFault`."""
        world, host = self._world, self._host
        self._check()
        fate = world.fates.of(host.name, self._place, what)
        await self._way(fate.there)
        if fate.mishap is not None:
            world.fault(f"{self._place}: {fate.mishap.value}", host.name, what)
        if fate.kind is not None:
            world.met(fate.kind)
        match fate.mishap:
            case Mishap.CRASH_BEFORE:
                await self._crash()
            case Mishap.NOT_SENT:
                raise NotSentFault(what)
            case Mishap.BUSY:
                raise BusyFault(what)
            case _:
                pass
        result = act()
        world.tell(host.name, f"{self._place} {what}")
        if fate.mishap is Mishap.CRASH_AFTER:
            await self._crash()
        if fate.mishap is Mishap.ANSWER_LOST:
            raise AnswerLostFault(what)
        await self._way(fate.back)
        return result

    async def _way(self, seconds: float) -> None:
        if seconds:
            await asyncio.sleep(seconds)
        while self._host.frozen_until > self._world.loop.time():
            await self._world.sleep_until(self._host.frozen_until)
        self._check()

    def _check(self) -> None:
        if not self._host.is_up:
            raise asyncio.CancelledError

    async def _crash(self) -> None:
        self._host.crash()
        await asyncio.get_running_loop().create_future()
