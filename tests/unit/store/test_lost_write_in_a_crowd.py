"""A write whose answer is lost is known as our own, however many writes of others came in between."""

from __future__ import annotations

import asyncio

from functions.pattern.events import StepStarted
from functions.pattern.folding import Answer
from tests.fakes.tasks import claimed, completed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.store.rows import Fault, MemoryRows
from tests.unit.store.test_lost_writes import Starts
from tests.unit.store.writers import Writer


async def test_start_is_known_as_our_own_after_nine_writes_of_another_process() -> None:
    """Only eight writes are named on the row, but the start id stands on the step's: it says whose it is."""
    names = [f"s{number:02d}" for number in range(10)]
    record = told(
        pending(workflow(*map(step, names), step("last", "s09"))),
        claimed(),
        *(started(name) for name in names),
    )
    rows = MemoryRows(record)
    writer, other = Writer(rows), Writer(rows)
    rows.faults.append(Fault.LOST)
    rows.loss_gate.clear()
    telling = asyncio.create_task(writer.tell(completed("s09"), follow=Starts("a").follow))
    while not rows.record(TASK).steps[9].settled:
        await asyncio.sleep(0)
    await other.knows(*(completed(name) for name in names[:9]))
    rows.loss_gate.set()
    answer = await telling
    assert isinstance(answer, Answer)
    ours = [event.start_id for event in answer.events if isinstance(event, StepStarted)]
    assert ours == [rows.record(TASK).steps[10].start_id]
