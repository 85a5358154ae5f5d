"""Tasks of many steps that run side by side, by one process and by four on one table."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.pattern.events import MessageLost
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Changed
from functions.store import task_table
from functions.store.pages import Page, read_page
from tests.fakes.tasks import FIRST, claimed, completed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process


def _wide(steps: int) -> Workflow:
    return workflow(*(step(f"s{number:02d}") for number in range(steps)))


async def _end_all(processes: list[Process], record: TaskRecord) -> list[Changed]:
    """Have the processes record the outcomes of all steps, each its part of them."""
    outcomes = [
        processes[number % len(processes)].store.change(TASK, completed(each.name))
        for number, each in enumerate(record.steps)
    ]
    return [each for each in await asyncio.gather(*outcomes) if isinstance(each, Changed)]


@pytest.mark.parametrize("count", [1, 4], ids=["one process", "four processes"])
@pytest.mark.parametrize("steps", [12, 24, 90])
async def test_every_outcome_is_recorded(make_process: MakeProcess, steps: int, count: int) -> None:
    """In epoch 1, each change announced once, whoever else writes at the same moment."""
    processes = [make_process() for _ in range(count)]
    definition = _wide(steps)
    record = told(pending(definition), claimed(), *(started(each.name) for each in definition.steps))
    await processes[0].store.admit(record)
    assert len(await _end_all(processes, record)) == steps
    task = (await processes[0].read(TASK)).record.task
    assert (task.process_state, task.epoch, task.failure_count) == (ProcessState.PROCESSED, FIRST, 0)
    assert sum(len(process.announcer.changes) for process in processes) == steps + 1
    assert sum(process.figures.transactions for process in processes) <= 1 + 8 * count


async def test_read_of_several_pages_is_never_torn(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps on the first and on the last page end while the pages are read one after another."""
    definition = _wide(20)
    record = told(pending(definition), claimed(), *(started(each.name) for each in definition.steps))
    await process.store.admit(record)
    names = [each.name for each in definition.steps]
    ending = list(zip(names[:5], names[10:], strict=False))

    async def read_five(*given: Any, **options: Any) -> Page:
        page = await read_page(*given, **options, most=5)
        if ending:
            await asyncio.gather(*(process.store.change(TASK, completed(name)) for name in ending.pop()))
        return page

    with monkeypatch.context() as patched:
        patched.setattr(task_table, "read_page", read_five)
        stored = await process.read(TASK)
    assert stored == await process.read(TASK)
    assert [each.settled for each in stored.record.steps].count(True) == 10


async def test_task_that_never_stands_still_is_not_read_for_ever(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is told, and may try again."""
    await process.store.admit(told(pending(_wide(20))))

    async def read_five(*given: Any, **options: Any) -> Page:
        page = await read_page(*given, **options, most=5)
        lost = MessageLost(queue="q", message_id=str(process.figures.reads), reason="TTL")
        await process.store.change(TASK, lost)
        return page

    monkeypatch.setattr(task_table, "read_page", read_five)
    monkeypatch.setattr(task_table, "_MOST_READS", 3)
    with pytest.raises(TransientError, match="changes faster than it can be read"):
        await process.store.load(TASK)
