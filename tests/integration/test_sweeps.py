"""Sweeps of a Supervisor, the full sweep, damaged rows, and the outbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.announcements import announcements
from functions.pattern.completion import complete
from functions.pattern.definition import Registry
from functions.pattern.errors import UnreadableError
from functions.pattern.events import AnnouncementSent
from functions.pattern.identity import Epoch, TaskId, scheduler_id
from functions.pattern.index_rows import IndexFix, IndexRow, RowPage, row_order
from functions.pattern.records import MAX_ANSWER_BYTES, SentAnnouncement, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.request_figures import StoreFigures
from functions.pattern.states import AnnouncementKind, ProcessState
from functions.pattern.store_ports import OutboxPage
from functions.pattern.wait_events import HandedBack
from functions.store.entities import task_entity
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import Row
from functions.store.index_entities import index_entity
from functions.store.keys import shard_key, shard_number
from functions.store.outbox import TableOutbox
from functions.store.retention import TableTaskRetention
from tests.fakes.interventions import done
from tests.fakes.shards import shards_in
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK, awaiting, workflow
from tests.integration.bulk_rows import create_rows
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process
from tests.integration.supervisors import PARCEL, Supervisor

pytestmark = pytest.mark.process


FINISHED = told(pending(PARCEL), claimed(), started("send"), completed("send"))
WAITING = told(
    pending(workflow(awaiting("approve", complete_within=365 * 86_400))),
    claimed(),
    started("approve", complete_by=365 * 86_400),
    HandedBack(epoch=FIRST, scheduler=scheduler_id(TASK, FIRST)),
)

SHARDS = 16


async def test_cost_of_a_sweep_follows_the_overdue_tasks(table: TableClient, groups: EntityGroups) -> None:
    """A read for each of 20 that are overdue, and three for each shard (due, parked, unsent).

    None for 10,000 that are finished, and none for 10,000 that wait for a year.
    """
    supervisor = Supervisor(table, groups, shards=SHARDS)
    await create_rows(groups, map(_others, range(SHARDS)))
    await _admit(supervisor, [pending(PARCEL, TaskId(f"overdue-{number}")) for number in range(20)])
    supervisor.clock.advance(36)
    supervisor.figures.reads = 0
    figures = await supervisor.sweep()
    assert (figures.found, figures.asked_again, figures.failures) == (20, 20, 0)
    # Besides: where the last sweep stopped, which Agents are known to be silent, and which crowds.
    assert supervisor.figures.reads <= 3 * SHARDS + 20 + 3
    assert len(supervisor.requests.asked) == 20


async def test_two_supervisors_at_once_recover_once(table: TableClient, groups: EntityGroups) -> None:
    """On the same tasks at the same moment: one recovery and one request each."""
    one, two = Supervisor(table, groups, instance="one"), Supervisor(table, groups, instance="two")
    tasks = [TaskId(f"task-{number}") for number in range(10)]
    await _admit(one, [pending(PARCEL, task) for task in tasks])
    for each in (one, two):
        each.clock.advance(36)
    swept = await asyncio.gather(one.sweep(), two.sweep())
    assert sum(figures.recovered for figures in swept) == 10
    assert sum(figures.failures for figures in swept) == 0
    assert sorted(one.requests.asked + two.requests.asked) == [(task, SECOND) for task in tasks]
    for task in tasks:
        record = await one.record(task)
        assert (record.task.failure_count, record.task.epoch, len(record.history)) == (1, SECOND, 1)


async def test_request_lost_in_a_crash_is_sent_by_the_next_recovery(
    table: TableClient, groups: EntityGroups
) -> None:
    """Killed between write and message: the task becomes overdue again, and the next sweep finds it."""
    dying, living = (
        Supervisor(table, groups, instance="dying", crashes=True),
        Supervisor(table, groups, instance="living"),
    )
    await _admit(dying, [pending(PARCEL)])
    dying.clock.advance(36)
    assert (await dying.sweep()).failures == 1
    assert (await living.record(TASK)).task.epoch == SECOND
    living.clock.advance(36 + 30 + 6)
    await living.sweep()
    assert living.requests.asked == [(TASK, Epoch(3))]
    assert (await living.record(TASK)).task.failure_count == 2


async def test_alert_lost_in_a_crash_is_sent(table: TableClient, groups: EntityGroups) -> None:
    """It was recorded with the change; the next sweep, by any Supervisor, sends it once."""
    dying, living = (
        Supervisor(table, groups, instance="dying", crashes=True),
        Supervisor(table, groups, instance="living"),
    )
    exhausted = pending(PARCEL)
    await _admit(dying, [replace(exhausted, task=replace(exhausted.task, failure_count=3))])
    dying.clock.advance(36)
    await dying.sweep()
    assert (await living.record(TASK)).task.process_state is ProcessState.ERROR
    living.clock.advance(36 + 31)
    assert [(await living.sweep()).sent for _ in range(2)] == [1, 0]
    [alert] = living.queues.told
    assert (alert.kind, alert.task) == (AnnouncementKind.ALERT, TASK)


async def _admit(supervisor: Supervisor, records: Sequence[TaskRecord]) -> None:
    await asyncio.gather(*(supervisor.store.admit(record) for record in records))


def _others(shard: int) -> Iterator[Row]:
    """Return the rows of one shard's tasks of which none is due that a sweep could read: task and index."""
    for number, (name, other) in product(range(10_000), {"finished": FINISHED, "waiting": WAITING}.items()):
        task = TaskId(f"{name}-{number}")
        key = shard_key(shard_number(task, SHARDS))
        if key == shard_key(shard):
            record = _named(other, task)
            yield task_entity(record.task, ("test",)) | {"PartitionKey": key}
            yield index_entity(record) | {"PartitionKey": key}


def _named(record: TaskRecord, task: TaskId) -> TaskRecord:
    """Return the record under another task's id."""
    return replace(record, order=replace(record.order, task=task), task=replace(record.task, order_id=task))


RIGHT = "!due|20261121T100030.123456Z|{}"
WRONG = "!due|20261121T100031.123456Z|{}"


@pytest.fixture
def supervisor(table: TableClient, groups: EntityGroups) -> Supervisor:
    """Create a Supervisor on an empty table."""
    return Supervisor(table, groups)


async def _rows(table: TableClient) -> dict[str, dict[str, Any]]:
    rows = {row["RowKey"]: dict(row) async for row in table.list_entities()}
    return {key: row for key, row in rows.items() if not key.endswith("-heartbeat")}


async def _damage(table: TableClient, task: str, *, missing: bool = False, wrong: bool = False) -> None:
    if missing:
        await table.delete_entity("000", RIGHT.format(task))
    if wrong:
        row = {"OrderID": task, "Workflow": "line", "ProcessState": "Pending"}
        await table.create_entity({"PartitionKey": "000", "RowKey": WRONG.format(task), **row})


async def test_damage_is_fixed_and_nothing_else_is_changed(
    supervisor: Supervisor, table: TableClient
) -> None:
    """Afterwards all rows are as before, and a second sweep has nothing to fix."""
    for task in ("sound", "missing", "moved", "doubled"):
        await supervisor.store.admit(pending(LINE, TaskId(task)))
    whole = await _rows(table)
    await _damage(table, "missing", missing=True)
    await _damage(table, "moved", missing=True, wrong=True)
    await _damage(table, "doubled", wrong=True)
    await _damage(table, "orphan", wrong=True)
    figures = await supervisor.full_sweep.run()
    assert (figures.tasks, figures.index_rows) == (4, 5)
    assert (figures.created, figures.deleted, figures.failures) == (2, 3, 0)
    fixed = await _rows(table)
    assert _without_write_ids(fixed) == _without_write_ids(whole)
    assert fixed["sound|task"] == whole["sound|task"]
    again = await supervisor.full_sweep.run()
    assert (again.created, again.deleted) == (0, 0)


async def test_index_row_without_its_task_s_id_is_written_anew(
    supervisor: Supervisor, table: TableClient
) -> None:
    """No index names a task by it."""
    await supervisor.store.admit(pending(LINE, TaskId("nameless")))
    whole = await _rows(table)
    right = {"PartitionKey": "000", "RowKey": RIGHT.format("nameless")}
    await table.upsert_entity({**right, "Workflow": "line"}, mode=UpdateMode.REPLACE)
    figures = await supervisor.full_sweep.run()
    assert (figures.created, figures.deleted, figures.failures) == (1, 0, 0)
    assert _without_write_ids(await _rows(table)) == _without_write_ids(whole)


async def test_finished_tasks_are_compared_too(supervisor: Supervisor) -> None:
    """With the index of their state; their outbox rows are no index rows."""
    done = [event(step) for step in ("pick", "send") for event in (started, completed)]
    await supervisor.store.admit(told(pending(LINE), claimed(), *done))
    figures = await supervisor.full_sweep.run()
    assert (figures.tasks, figures.index_rows, figures.created, figures.deleted) == (1, 1, 0, 0)


async def test_task_that_changed_during_the_sweep_is_not_touched(
    supervisor: Supervisor, table: TableClient
) -> None:
    """Its row is not as it was read: it has to be looked at again."""
    rows = supervisor.index_rows
    task = TaskId("moved")
    await supervisor.store.admit(pending(LINE, task))
    await _damage(table, task, wrong=True)
    read = await supervisor.store.load(task)
    assert read is not None
    seen = (await rows.indexed(0, after=None, most=1000)).rows
    assert [row.key for row in seen] == [RIGHT.format(task), WRONG.format(task)]
    await supervisor.store.change(task, claimed(task=task))
    before = await _rows(table)
    assert await rows.fix(read, seen) is None
    assert await _rows(table) == before


async def test_wrong_row_that_is_gone_meanwhile_keeps_the_right_one_from_no_task(
    supervisor: Supervisor, table: TableClient
) -> None:
    """It is read again before it is deleted; a sweep that looks again has seen it at the first look."""
    rows, task = supervisor.index_rows, TaskId("moved")
    await supervisor.store.admit(pending(LINE, task))
    whole = await _rows(table)
    await _damage(table, task, missing=True, wrong=True)
    [seen] = (await rows.indexed(0, after=None, most=1000)).rows
    await table.delete_entity("000", seen.key)
    read = await supervisor.store.load(task)
    assert read is not None
    assert await rows.fix(read, [seen]) == IndexFix(created=1)
    assert _without_write_ids(await _rows(table)) == _without_write_ids(whole)


async def test_task_that_came_after_its_index_was_read_is_not_touched(
    supervisor: Supervisor, table: TableClient
) -> None:
    """No index row of it was seen, but it is there: nothing is missing, and nothing is reported."""
    await supervisor.store.admit(pending(LINE, TaskId("new")))
    read = await supervisor.store.load(TaskId("new"))
    assert read is not None
    before = await _rows(table)
    assert await supervisor.index_rows.fix(read, ()) == IndexFix()
    assert await _rows(table) == before


async def test_index_row_that_was_deleted_or_replaced_is_not_removed(
    supervisor: Supervisor, table: TableClient
) -> None:
    """Only the exact row that was read is removed."""
    rows = supervisor.index_rows
    await _damage(table, "orphan", wrong=True)
    [seen] = (await rows.indexed(0, after=None, most=1000)).rows
    assert await rows.remove(IndexRow(seen.task, WRONG.format("other"), seen.version)) == IndexFix()
    await table.delete_entity("000", seen.key)
    await _damage(table, "orphan", wrong=True)
    assert await rows.remove(seen) == IndexFix()
    assert list(await _rows(table)) == [seen.key]


async def test_pages_cover_all_rows(supervisor: Supervisor) -> None:
    """Whatever their size: each index row and each task once, tasks beyond any of them, and in its order."""
    tasks = sorted((TaskId(name) for name in ("task", "task-1", "task-10", "Task", "task_1")), key=row_order)
    for task in tasks:
        await supervisor.store.admit(pending(LINE, task))
    rows = supervisor.index_rows
    indexed = await _all(lambda after: rows.indexed(0, after=after, most=3))
    assert sorted(row.key for row in indexed) == sorted(RIGHT.format(task) for task in tasks)
    for number, beyond in enumerate([None, *tasks]):
        found = await _all(lambda after, beyond=beyond: rows.tasks(0, beyond=beyond, after=after, most=2))
        assert [row.task for row in found] == tasks[number:]


async def _all[RowT](read: Callable[..., Awaitable[RowPage[RowT]]]) -> list[RowT]:
    found: list[RowT] = []
    after: str | None = None
    while True:
        page = await read(after)
        found += page.rows
        after = page.continuation
        if after is None:
            return found


def _without_write_ids(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {name: row[name] for name in row if name != "WriteId"} for key, row in rows.items()}


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


@pytest.fixture(params=DAMAGE)
async def damaged(request: pytest.FixtureRequest, supervisor: Supervisor, table: TableClient) -> str:
    """Damage a row of one of two tasks, and return its key."""
    for task in (BAD, GOOD):
        await supervisor.store.admit(pending(LINE, task))
    key, columns = DAMAGE[request.param]
    await _damage_row(table, key, columns)
    return key


async def _damage_row(table: TableClient, key: str, columns: Mapping[str, Any]) -> None:
    await table.update_entity({"PartitionKey": "000", "RowKey": key, **columns})


async def test_sweep_names_the_row_and_recovers_the_others(supervisor: Supervisor, damaged: str) -> None:
    """One alert, however many sweeps."""
    supervisor.clock.advance(36)
    figures = await supervisor.sweep()
    assert (figures.recovered, figures.failures, len(figures.damage)) == (1, 0, 1)
    assert (await supervisor.record(GOOD)).task.epoch == SECOND
    await supervisor.sweep()
    [(rows, named)] = supervisor.damage.alerts
    assert rows == 1
    assert set(named) <= {damaged, f"{BAD}|task"}


async def test_full_sweep_goes_on_and_mends_what_follows_from_the_task(
    supervisor: Supervisor, table: TableClient, damaged: str
) -> None:
    """An index row is made anew out of its task; the rows of a task are nobody's to guess."""
    await table.delete_entity("000", DUE.format(GOOD))
    figures = await supervisor.full_sweep.run()
    of_index = damaged.startswith("!due")
    assert (figures.created, figures.deleted, figures.failures) == (2 if of_index else 1, 0, 0)
    found = await supervisor.sweep()
    assert len(found.damage) == 0
    supervisor.clock.advance(36)
    assert (await supervisor.sweep()).recovered == (2 if of_index else 1)


async def test_task_that_cannot_be_read_says_which_row(supervisor: Supervisor, table: TableClient) -> None:
    """Without its values: they may be the caller's."""
    await supervisor.store.admit(pending(LINE, BAD))
    await _damage_row(table, f"{BAD}|step|00", {"State": "Sleeping"})
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


_PLAIN = pending(LINE)
ORDER = replace(_PLAIN, order=replace(_PLAIN.order, reply_to="notices-demo"))


@pytest.fixture
def outbox(table: TableClient) -> TableOutbox:
    """Read the outbox of the test's table."""
    return TableOutbox(shards_in(table), StoreFigures())


async def _mark_all(process: Process, outbox: TableOutbox) -> None:
    """Mark everything as sent, a minute after the task was recorded."""
    for each in (await outbox.unsent(0, after(600), 10)).announcements:
        process.writer.note(each.task, AnnouncementSent(announcement=each, sent_at=after(60)))
    await process.writer.settle()


async def test_time_of_a_sent_announcement_is_recorded(
    make_process: MakeProcess, outbox: TableOutbox
) -> None:
    """The record shows it, and a second process that also sent it changes nothing."""
    process, other = make_process(), make_process()
    await process.store.admit(ORDER)
    [received] = (await outbox.unsent(0, after(60), 10)).announcements
    await _mark_all(process, outbox)
    assert await outbox.unsent(0, after(60), 10) == OutboxPage(())
    rows = await process.rows()
    other.writer.note(TASK, AnnouncementSent(announcement=received, sent_at=after(61)))
    await other.writer.settle()
    assert await process.rows() == rows
    [sent] = (await process.read(TASK)).record.task.sent
    assert sent == SentAnnouncement(kind=AnnouncementKind.RECEIVED, epoch=FIRST, sent_at=after(60))


@pytest.mark.parametrize("character", ['"', "\\", "\x01", "文", "\U0001f600", "x"])
async def test_largest_answer_is_written_with_the_outcome_and_its_notice(
    process: Process, outbox: TableOutbox, character: str
) -> None:
    """In one transaction, with no row more, in whichever script it is."""
    room = MAX_ANSWER_BYTES - len(json.dumps({"text": ""}))
    text = character * (room // len(json.dumps(character, ensure_ascii=False)[1:-1].encode()))
    answering = Registry((replace(LINE, answer=lambda _, __: {"text": text}),), {})
    process.complete = partial(complete, answering)
    await process.store.admit(ORDER)
    await process.told(TASK, claimed(), *done("pick", "send")[:-1])
    transactions, operations = process.figures.transactions, process.figures.operations
    ended = await process.told(TASK, done("send")[-1])
    assert json.loads(ended.record.task.answer or b"") == {"text": text}
    assert process.figures.transactions == transactions + 1
    assert process.figures.operations == operations + 5, "task, step, notice, and the index's two rows"
    unsent = (await outbox.unsent(0, after(60), 10)).announcements
    [notice] = [each for each in unsent if each.answer is not None]
    assert notice.answer == {"text": text}


async def test_announcement_that_is_given_up_records_no_time(process: Process, outbox: TableOutbox) -> None:
    """It cannot be mistaken for one that was sent."""
    await process.store.admit(ORDER)
    [received] = announcements(None, ORDER)
    for _ in range(2):
        await outbox.give_up(received)
    assert await outbox.unsent(0, after(60), 10) == OutboxPage(())
    assert (await process.read(TASK)).record.task.sent == ()


async def test_announcement_of_a_purged_task_leaves_no_mark(
    process: Process, outbox: TableOutbox, retention: TableTaskRetention
) -> None:
    """It is sent all the same; a new task under the id has sent nothing yet."""
    await process.store.admit(ORDER)
    stored = await process.told(TASK, claimed(), *done("pick", "send"))
    assert await retention.delete(stored)
    for each in (await outbox.unsent(0, after(600), 10)).announcements:
        marked = await process.store.change(TASK, AnnouncementSent(announcement=each, sent_at=after(60)))
        assert marked == Refused(RefusalReason.NO_SUCH_TASK)
        await outbox.give_up(each)
    assert await process.rows() == {}


async def test_task_that_is_marked_during_its_purge_stays_until_the_next(
    process: Process, outbox: TableOutbox, retention: TableTaskRetention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the mark goes with it."""
    await process.store.admit(ORDER)
    await process.told(TASK, claimed(), *done("pick", "send"))
    read = retention._keys

    async def mark_after_reading(task: TaskId) -> list[str]:
        keys = await read(task)
        await _mark_all(process, outbox)
        return keys

    with monkeypatch.context() as patched:
        patched.setattr(retention, "_keys", mark_after_reading)
        assert not await retention.delete(await process.read(TASK))
    assert await retention.delete(await process.read(TASK))
    assert await process.rows() == {}
