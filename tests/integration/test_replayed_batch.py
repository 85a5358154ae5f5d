"""A batch of orders that comes again is found by reads of single rows, and writes nothing."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest

from functions.pattern.identity import TaskId
from functions.pattern.store_ports import Admission
from tests.fakes.hub_events import batch
from tests.fakes.tasks import claimed, pending
from tests.fakes.workflows import LINE
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process
from tests.unit.ingestion.bench import Bench, order

pytestmark = pytest.mark.process


async def _admit(process: Process, *tasks: TaskId) -> list[Admission]:
    admitted = await asyncio.gather(*(process.store.admit(pending(LINE, task)) for task in tasks))
    return [each.admission for each in admitted]


async def test_replay_sends_the_absent_orders_only(make_process: MakeProcess) -> None:
    """Each order of five rows is sent once; what is there costs two reads, of its row and of its record."""
    first, again = make_process(), make_process()
    known, new = [TaskId(f"known-{n}") for n in range(15)], [TaskId(f"new-{n}") for n in range(5)]
    await _admit(first, *known)
    again.figures.operations = 0
    admissions = await _admit(again, *known, *new)
    assert admissions == [Admission.KNOWN] * 15 + [Admission.RECORDED] * 5
    # Up to three transactions leave before the first answer; the absent orders follow once.
    assert again.figures.operations <= 5 * (15 + 5) + 5 * 5


@pytest.mark.parametrize("recent", [True, False])
async def test_replay_of_the_hub_writes_no_row(make_process: MakeProcess, *, recent: bool) -> None:
    """Of orders that have begun: each costs one read of one row, and of those just recorded another."""
    first, again = make_process(), make_process()
    events = [batch(*(order(f"{name}-{n}") for n in range(40)), first=40 * name) for name in range(3)]
    bench = Bench(first.store)
    for each in events:
        await bench.take(each)
        tasks = [TaskId(json.loads(event.get_body())["task_id"]) for event in each]
        await asyncio.gather(*(first.told(task, claimed(task=task)) for task in tasks))
    assert len(bench.schedulers.started) == 120
    replay = Bench(again.store)
    now = datetime.now(UTC) - replay.clock.now()
    replay.clock.advance(now.total_seconds() + (0 if recent else 180))
    again.figures.operations = again.figures.reads = 0
    for each in events:
        await replay.take(each)
    assert (again.figures.operations, again.figures.transactions) == (0, 0)
    assert again.figures.reads == (1 + recent) * 120  # that nobody has to begin it is another
    assert (replay.schedulers.started, replay.rejected.all) == ([], [])


async def test_task_awaits_its_first_turn_until_it_is_claimed(process: Process) -> None:
    """One row tells, and what is not there awaits nothing."""
    task = TaskId("t-1")
    assert not await process.store.awaits_first_turn(task)
    await _admit(process, task)
    assert await process.store.awaits_first_turn(task)
    await process.told(task, claimed(task=task))
    process.figures.reads = 0
    assert not await process.store.awaits_first_turn(task)
    assert process.figures.reads == 1
