"""Rows that can't be read, on the real table: each is named, and hides no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.errors import UnreadableError
from functions.pattern.events import AnnouncementSent
from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.pattern.states import AnnouncementKind
from functions.store.entity_groups import EntityGroups
from functions.store.outbox import TableOutbox
from tests.fakes.shards import shards_in
from tests.fakes.tasks import SECOND, after, pending
from tests.fakes.workflows import LINE
from tests.integration.supervisors import Supervisor

pytestmark = pytest.mark.process

BAD, GOOD = TaskId("bad"), TaskId("good")
DUE = "!due|20261121T100030.123456Z|{}"

#: What may become of a row: an unknown state after a rollback, or damage.
STATE = {"ProcessState": "Parked"}
DAMAGE: dict[str, tuple[str, Mapping[str, Any]]] = {
    "task's state": (f"{BAD}|task", STATE),
    "task's type": (f"{BAD}|task", {"FailureCount": "many"}),
    "task's writes": (f"{BAD}|task", {"WriteId": 7}),
    "step's state": (f"{BAD}|step|00", {"State": "Sleeping"}),
    "order's times": (f"{BAD}|order", {"SubmittedAt": "yesterday"}),
    "index's state": (DUE.format(BAD), STATE),
    "index's time": (DUE.format(BAD), {"SubmittedAt": 7}),
}


@pytest.fixture
def supervisor(table: TableClient, groups: EntityGroups) -> Supervisor:
    """Create a Supervisor on an empty table."""
    return Supervisor(table, groups)


async def _damage(table: TableClient, key: str, columns: Mapping[str, Any]) -> None:
    await table.update_entity({"PartitionKey": "000", "RowKey": key, **columns})


@pytest.mark.parametrize("kind", DAMAGE)
async def test_sweep_names_the_row_and_recovers_the_others(
    supervisor: Supervisor, table: TableClient, kind: str
) -> None:
    """One alert, however many sweeps."""
    for task in (BAD, GOOD):
        await supervisor.store.admit(pending(LINE, task))
    key, columns = DAMAGE[kind]
    await _damage(table, key, columns)
    supervisor.clock.advance(36)
    figures = await supervisor.sweep()
    assert (figures.recovered, figures.failures, len(figures.damage)) == (1, 0, 1)
    assert (await supervisor.record(GOOD)).task.epoch == SECOND
    await supervisor.sweep()
    [(rows, named)] = supervisor.damage.alerts
    assert rows == 1
    assert set(named) <= {key, f"{BAD}|task"}


@pytest.mark.parametrize("kind", DAMAGE)
async def test_full_sweep_goes_on_and_mends_what_follows_from_the_task(
    supervisor: Supervisor, table: TableClient, kind: str
) -> None:
    """An index row is made anew out of its task; the rows of a task are nobody's to guess."""
    for task in (BAD, GOOD):
        await supervisor.store.admit(pending(LINE, task))
    key, columns = DAMAGE[kind]
    await _damage(table, key, columns)
    await table.delete_entity("000", DUE.format(GOOD))
    figures = await supervisor.full_sweep.run()
    of_index = key.startswith("!due")
    assert (figures.created, figures.deleted, figures.failures) == (2 if of_index else 1, 0, 0)
    found = await supervisor.sweep()
    assert len(found.damage) == 0
    supervisor.clock.advance(36)
    assert (await supervisor.sweep()).recovered == (2 if of_index else 1)


async def test_task_that_cannot_be_read_says_which_row(supervisor: Supervisor, table: TableClient) -> None:
    """Without its values: they may be the caller's."""
    await supervisor.store.admit(pending(LINE, BAD))
    await _damage(table, f"{BAD}|step|00", {"State": "Sleeping"})
    with pytest.raises(UnreadableError, match=r"row bad\|step\|00 can't be read: ValueError: 'Sleeping'"):
        await supervisor.store.load(BAD)


async def test_index_page_has_what_can_be_read(supervisor: Supervisor, table: TableClient) -> None:
    """And names the rest: rows without their columns, or with keys that hold no time."""
    await supervisor.store.admit(pending(LINE, GOOD))
    for key in ("!due|20260101T000000.000000Z|gone", "!due|soon|gone", "!due|20260101|gone"):
        await table.create_entity({"PartitionKey": "000", "RowKey": key, "OrderID": "gone"})
    page = await supervisor.index_rows.indexed(0, after=None, most=1000)
    assert [row.task for row in page.rows if not row.damaged] == [GOOD]
    swept = await supervisor.sweep()
    assert len(swept.damage) == 2  # what is due: the row without a time is beyond any


async def test_outbox_names_what_it_cannot_read(table: TableClient, supervisor: Supervisor) -> None:
    """The others of its queue are sent; so are those behind a page of damaged rows."""
    order = pending(LINE, GOOD)
    await supervisor.store.admit(replace(order, order=replace(order.order, reply_to="notices-demo")))
    for number in range(5):
        row = {"OrderID": "x", "Announcement": '{"kind": "unknown"}'}
        key = f"!send|1notices-demo|20200101T00000{number}.000000Z|x"
        await table.create_entity({"PartitionKey": "000", "RowKey": key, **row})
    outbox = TableOutbox(shards_in(table), StoreFigures())
    page = await outbox.unsent(0, after(60), 3)
    assert (page.announcements, len(page.unreadable)) == ((), 3)
    page = await outbox.unsent(0, after(60), 3, after=page.continuation)
    assert ([each.kind for each in page.announcements], len(page.unreadable)) == (
        [AnnouncementKind.RECEIVED],
        2,
    )
    assert page.continuation is None


async def test_outbox_gives_of_each_queue_the_oldest(table: TableClient, supervisor: Supervisor) -> None:
    """However many there are of another; names that begin alike are different queues."""
    queues = ["gone", "gone-2", "gone/3", "z"]
    for queue in queues:
        for number in range(5 if queue == "gone" else 1):
            order = pending(LINE, TaskId(f"task-{queue.replace('/', '-')}-{number}"))
            await supervisor.store.admit(replace(order, order=replace(order.order, reply_to=queue)))
    outbox, found, place = TableOutbox(shards_in(table), StoreFigures()), list[str | None](), None
    while True:
        page = await outbox.unsent(0, after(60), 2, after=place)
        found += [each.reply_to for each in page.announcements]
        place = page.continuation
        for each in page.announcements:
            marked = AnnouncementSent(announcement=each, sent_at=after(60))
            await supervisor.store.change(each.task, marked)
        if place is None:
            break
    assert sorted(set(map(str, found))) == queues
    assert found.count("gone") < 5
