"""A batch of orders that comes again writes nothing."""

from __future__ import annotations

import asyncio
import json

import pytest

from functions.pattern.identity import TaskId
from functions.pattern.store_ports import Admission
from tests.fakes.hub_events import batch
from tests.fakes.tasks import claimed, pending
from tests.fakes.workflows import LINE
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process
from tests.unit.ingestion.conftest import Bench, order

pytestmark = pytest.mark.process


async def _admit(process: Process, *tasks: TaskId) -> list[Admission]:
    admitted = await asyncio.gather(*(process.store.admit(pending(LINE, task)) for task in tasks))
    return [each.admission for each in admitted]


async def _versions(process: Process) -> dict[tuple[str, str], str | None]:
    """Return the ETag of each row of the table."""
    rows = process.table.list_entities()
    return {(row["PartitionKey"], row["RowKey"]): row.metadata["etag"] async for row in rows}


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


async def test_replay_of_the_hub_writes_no_row(make_process: MakeProcess) -> None:
    """Each row of a started order keeps its version, and no Scheduler is requested."""
    first, again = make_process(), make_process()
    events = [batch(*(order(f"{name}-{n}") for n in range(40)), first=40 * name) for name in range(3)]
    bench = Bench(first.store)
    for each in events:
        await bench.take(each)
        tasks = [TaskId(json.loads(event.get_body())["task_id"]) for event in each]
        await asyncio.gather(*(first.told(task, claimed(task=task)) for task in tasks))
    assert len(bench.schedulers.started) == 120
    before = await _versions(again)
    replay = Bench(again.store)
    for each in events:
        await replay.take(each)
    assert len(before) > 120
    assert await _versions(again) == before
    assert (replay.schedulers.started, replay.rejected.all) == ([], [])
