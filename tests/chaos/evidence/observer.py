"""Observes all tasks while they run: some rules must hold at any moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from azure.core.exceptions import AzureError

from tests.chaos.evidence.definitions import TaskDefinitions
from tests.chaos.evidence.rows import FINAL, RawTask, TaskRows
from tests.chaos.evidence.tables import Tables

_LOOK_EVERY = 1.0
#: How many times as long as a look the observer rests after it: more would slow down what it observes.
_REST = 3
#: Seconds after which an incomplete task is read again, and how often: in Azurite, unlike in Table Storage,
#: others see a transaction that is still being carried out.
_LOOK_AGAIN_AFTER, _MOST_LOOKS = 0.3, 10


@dataclass(slots=True)
class Observations:
    """What was observed: each row of a task that differed from the one observed before."""

    tasks: dict[str, list[RawTask]] = field(default_factory=dict)
    incomplete: list[str] = field(default_factory=list)
    looks: int = 0

    @property
    def finished(self) -> int:
        """How many tasks were finished when they were last observed."""
        return sum(seen[-1].state in FINAL for seen in self.tasks.values() if seen)


class Observer:
    """Observes the tasks, shard by shard."""

    def __init__(self, tables: Tables, definitions: TaskDefinitions) -> None:
        self._tables = tables
        self._definitions = definitions
        self._observations = Observations()

    @property
    def observations(self) -> Observations:
        """Everything observed so far; it grows while `watch` runs."""
        return self._observations

    async def watch(self) -> None:
        """Observe until cancelled; a read that Azurite does not answer is skipped."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            try:
                for shard in await self._tables.shards():
                    await self._look(shard)
                self._observations.looks += 1
            except AzureError:
                pass  # Azurite is paused or down
            await asyncio.sleep(max(_LOOK_EVERY, _REST * (loop.time() - begun)))

    async def _look(self, shard: str) -> None:
        seen = await self._tables.look(shard)
        for task, rows in seen.items():
            self._record(task, rows)
        suspects = [task for task, rows in seen.items() if not self._is_whole(rows)]
        for _ in range(_MOST_LOOKS):
            if not suspects:
                return
            await asyncio.sleep(_LOOK_AGAIN_AFTER)
            again = await self._tables.look(shard)
            suspects = [task for task in suspects if task not in again or not self._is_whole(again[task])]
        self._observations.incomplete += suspects

    def _is_whole(self, rows: TaskRows) -> bool:
        return rows.is_complete and not self._definitions.missing(rows)

    def _record(self, task: str, rows: TaskRows) -> None:
        seen = self._observations.tasks.setdefault(task, [])
        if rows.task is not None and (not seen or seen[-1] != rows.task):
            seen.append(rows.task)
