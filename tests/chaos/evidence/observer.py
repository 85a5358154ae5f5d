"""Observes the tasks while they run: some invariants are about each version of a task's row."""

from __future__ import annotations

import asyncio

from azure.core.exceptions import AzureError

from tests.chaos.evidence.tables import Tables
from tests.simulation.checks.journal import Version
from tests.simulation.checks.rows import FINAL, TaskRows

_LOOK_EVERY = 1.0
#: The pause after a look, in lengths of the look: more looks would slow down the application.
_REST = 3


class Observer:
    """Keeps each version of a task's row that it sees; it can miss one between two looks."""

    def __init__(self) -> None:
        self.journal: dict[str, list[Version]] = {}
        self.looks = 0

    @property
    def finished(self) -> int:
        """The number of tasks that were finished at the last look."""
        return sum(versions[-1].state in FINAL for versions in self.journal.values())

    async def watch(self, tables: Tables) -> None:
        """Observe until cancelled; skip a read that Azurite does not answer."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            try:
                self.record(await tables.look())
                self.looks += 1
            except AzureError:
                pass  # Azurite is paused
            await asyncio.sleep(max(_LOOK_EVERY, _REST * (loop.time() - begun)))

    def record(self, tasks: dict[str, TaskRows]) -> None:
        """Add the versions that differ from the last ones."""
        for task, rows in tasks.items():
            if rows.task is None:
                continue
            row, versions = rows.task, self.journal.setdefault(task, [])
            version = Version(
                at=0.0,  # so that equal versions are equal
                state=row.state,
                epoch=row.epoch,
                run=row.run,
                holder=row.locked_by,
                failures=row.failure_count,
                direction=row.direction,
                is_parked=row.parked_for is not None,
                # The observer may miss a version with another one; the simulation judges early recoveries.
                complete_by=None,
            )
            if versions[-1:] != [version]:
                versions.append(version)
