"""Selections on Table Storage: pages follow each other while tasks leave the index, and others enter it."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from http import HTTPStatus

import pytest
from azure.data.tables.aio import TableClient

from functions.operations.tasks import bulk as selections
from functions.operations.tasks.bulk import Selection
from functions.operations.tasks.query import Filter
from functions.pattern.events import Parked
from functions.pattern.identity import TaskId, scheduler_id
from functions.pattern.ports import Ports
from functions.pattern.request_figures import StoreFigures
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index
from functions.store.indexes import TableTaskIndex
from functions.web.problems import ProblemError
from tests.fakes.interventions import park_request, resubmission
from tests.fakes.ports import fake_ports
from tests.fakes.shards import shards_in
from tests.fakes.tasks import FIRST, after, claimed, failed, pending, started
from tests.fakes.workflows import LINE, step, workflow
from tests.integration.processes import Process

pytestmark = pytest.mark.process

ONE_STEP = workflow(step("pick"))


@pytest.fixture
def ports(process: Process, table: TableClient) -> Ports:
    """Read a table with one shard."""
    index = TableTaskIndex(shards_in(table), StoreFigures())
    return fake_ports(index=index, store=process.store)


async def _refused(process: Process, *names: str) -> None:
    """Bring tasks into `Error`, ten at the same moment."""
    for number, task in enumerate(map(TaskId, names)):
        await process.store.admit(pending(ONE_STEP, task))
        await process.told(task, claimed(task=task), started("pick", task=task), failed("pick", task=task))
        process.clock.advance(1 if number % 10 == 0 else 0)


async def _pages(selection: Selection) -> list[list[TaskId]]:
    pages, cursor = [], None
    while True:
        page = await selection.page(cursor)
        pages.append([entry.task for entry in page.entries])
        cursor = page.cursor
        if cursor is None:
            return pages


async def test_each_is_read_once_while_they_leave_the_index(
    process: Process, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And while others enter it: those are too new, or lie behind."""
    monkeypatch.setattr(selections, "MOST_PER_PAGE", 7)
    names = [f"e-{number}" for number in range(30)]
    await _refused(process, *names)
    selection = Selection(ports, Filter(state=ProcessState.ERROR), process.clock.now())
    process.clock.advance(5)
    assert (await selection.count())[0] == 30
    read: list[TaskId] = []
    cursor = None
    while True:
        page = await selection.page(cursor)
        read += [entry.task for entry in page.entries]
        await asyncio.gather(*(process.told(entry.task, resubmission()) for entry in page.entries))
        await _refused(process, f"later-{len(read)}")
        if (cursor := page.cursor) is None:
            break
    assert sorted(read) == sorted(names)
    assert (await selection.count())[0] == 0


async def test_ids_with_a_prefix_are_read_page_by_page(
    process: Process, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any state."""
    monkeypatch.setattr(selections, "MOST_PER_PAGE", 2)
    await _refused(process, "a-1", "a-2", "b-1")
    await process.store.admit(pending(LINE, TaskId("a-3")))
    pages = await _pages(Selection(ports, Filter(prefix="a-"), after(60)))
    assert pages == [["a-1", "a-2"], ["a-3"]]


async def test_operators_tasks_come_behind_all_that_are_parked(process: Process, ports: Ports) -> None:
    """A sweep that reads the first knows whether any waits for a deployment."""
    for task in map(TaskId, ("a", "z")):
        await process.store.admit(pending(LINE, task))
    await process.told(TaskId("a"), park_request())
    lacking = Parked(epoch=FIRST, scheduler=scheduler_id(TaskId("z"), FIRST), reason="not here")
    await process.told(TaskId("z"), claimed(task=TaskId("z")), lacking)
    page = await ports.index.page(Index.PARKED, 0, most=5)
    assert [(entry.task, entry.parked_by_operator) for entry in page.entries] == [("z", False), ("a", True)]
    waiting = await ports.index.parked("line", 1, 0, after=None, most=5)
    assert [entry.task for entry in waiting.entries] == ["z"]
    assert await _pages(Selection(ports, Filter(parked=True), after(60))) == [["z", "a"]]


async def test_cursor_that_storage_does_not_know_is_refused(
    process: Process, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """422, not a failure."""
    monkeypatch.setattr(selections, "MOST_PER_PAGE", 1)
    await _refused(process, "e-1", "e-2")
    selection = Selection(ports, Filter(), after(60))
    place = json.loads(urlsafe_b64decode(f"{(await selection.page(None)).cursor}=="))
    forged = urlsafe_b64encode(json.dumps(place | {"after": "x"}).encode()).decode()
    with pytest.raises(ProblemError) as refusal:
        await selection.page(forged)
    assert refusal.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
