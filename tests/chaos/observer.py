"""Looks at all tasks again and again while they run: some rules must hold at any moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from azure.core.exceptions import AzureError

from tests.chaos.rows import FINAL, TaskRow, TaskRows
from tests.chaos.tables import Tables

_LOOK_EVERY = 1.0
#: Seconds after which a task that was not whole is looked at again: Azurite, unlike Table Storage, lets
#: others see a transaction that it is still carrying out.
_LOOK_AGAIN_AFTER = 0.3


@dataclass(slots=True)
class Sightings:
    """What was seen of the tasks: each row of a task that differed from the one seen before."""

    tasks: dict[str, list[TaskRow]] = field(default_factory=dict)
    not_whole: list[str] = field(default_factory=list)
    looks: int = 0

    @property
    def finished(self) -> int:
        """How many tasks were at an end when they were last seen."""
        return sum(seen[-1].state in FINAL for seen in self.tasks.values() if seen)


class Observer:
    """Watches the tasks, shard by shard."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._sightings = Sightings()

    @property
    def sightings(self) -> Sightings:
        """Everything that was seen so far; it grows while `watch` runs."""
        return self._sightings

    async def watch(self) -> None:
        """Look until cancelled; a look that Azurite does not answer is left out."""
        while True:
            try:
                for shard in await self._tables.shards():
                    await self._look(shard)
                self._sightings.looks += 1
            except AzureError:
                pass  # it is paused, or away
            await asyncio.sleep(_LOOK_EVERY)

    async def _look(self, shard: str) -> None:
        seen = await self._tables.shard(shard)
        for task, rows in seen.items():
            self._note(task, rows)
        suspects = [task for task, rows in seen.items() if not rows.is_whole]
        if suspects:
            await asyncio.sleep(_LOOK_AGAIN_AFTER)
            again = await self._tables.shard(shard)
            self._sightings.not_whole += [
                task for task in suspects if task not in again or not again[task].is_whole
            ]

    def _note(self, task: str, rows: TaskRows) -> None:
        seen = self._sightings.tasks.setdefault(task, [])
        if rows.task is not None and (not seen or seen[-1] != rows.task):
            seen.append(rows.task)
