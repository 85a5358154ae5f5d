"""The outbox on the real table: what was sent is removed from it, and its time is recorded on the task."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.announcements import announcements
from functions.pattern.completion import complete
from functions.pattern.definition import Registry
from functions.pattern.events import AnnouncementSent
from functions.pattern.identity import TaskId
from functions.pattern.records import MAX_ANSWER_BYTES, SentAnnouncement
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.request_figures import StoreFigures
from functions.pattern.states import AnnouncementKind
from functions.pattern.store_ports import OutboxPage
from functions.store.entity_groups import EntityGroups
from functions.store.outbox import TableOutbox
from functions.store.retention import TableTaskRetention
from tests.fakes.interventions import done
from tests.fakes.shards import shards_in
from tests.fakes.tasks import FIRST, after, claimed, pending
from tests.fakes.workflows import LINE, TASK
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process

_PLAIN = pending(LINE)
ORDER = replace(_PLAIN, order=replace(_PLAIN.order, reply_to="notices-demo"))


@pytest.fixture
def outbox(table: TableClient) -> TableOutbox:
    """Read the outbox of the test's table."""
    return TableOutbox(shards_in(table), StoreFigures())


@pytest.fixture
def retention(table: TableClient, groups: EntityGroups) -> TableTaskRetention:
    """Create the deletion of tasks for the test's table."""
    return TableTaskRetention(shards_in(table, groups), StoreFigures())


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
