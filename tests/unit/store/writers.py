"""Writers of tasks on shared rows, each as one process has it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import datetime

from functions.pattern.events import Event
from functions.pattern.folding import Answer, Follow, Told
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.store.task_writer import TaskWriter
from tests.fakes.chance import Least
from tests.fakes.clock import FakeClock
from tests.fakes.tasks import claimed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.store.rows import MemoryRows


def wide(steps: int) -> TaskRecord:
    """Make a task whose steps are all running side by side."""
    names = [f"s{number:02d}" for number in range(steps)]
    record = pending(workflow(*map(step, names)))
    return told(record, claimed(), *(started(name) for name in names))


class Writer:
    """One process's writer, which never waits between tries."""

    def __init__(self, rows: MemoryRows) -> None:
        self.clock = FakeClock()
        self.writer = TaskWriter(rows, clock=self.clock, new_id=lambda: uuid.uuid4().hex, random=Least())

    async def tell(
        self,
        event: Event,
        *,
        task: TaskId = TASK,
        follow: Follow | None = None,
        until: datetime | None = None,
    ) -> Answer | Refused:
        """Tell a task an event."""
        return await self.writer.tell(task, Told(event, follow), until=until)

    async def knows(self, *events: Event) -> None:
        """Tell events one after another; none may be refused."""
        for event in events:
            assert isinstance(await self.tell(event), Answer)

    async def tell_all(self, events: Sequence[Event]) -> list[Answer | Refused]:
        """Tell events side by side."""
        return await asyncio.gather(*map(self.tell, events))

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is left of what was told."""
        return not self.writer._lines and not self.writer._workers
