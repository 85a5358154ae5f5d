"""The outbox on the real table: what was sent is removed from it, and its time is recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.announcements import announcements
from functions.pattern.identity import TaskId
from functions.pattern.records import SentAnnouncement
from functions.pattern.request_figures import StoreFigures
from functions.pattern.states import AnnouncementKind
from functions.store.entity_groups import EntityGroups
from functions.store.outbox import TableOutbox
from functions.store.retention import TableTaskRetention
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import done
from tests.fakes.tasks import FIRST, after, claimed, pending
from tests.fakes.workflows import LINE, TASK
from tests.integration.processes import Process

pytestmark = pytest.mark.process

_PLAIN = pending(LINE)
ORDER = replace(_PLAIN, order=replace(_PLAIN.order, reply_to="notices-demo"))


class Sender:
    """Sends announcements, a minute after the task was recorded."""

    def __init__(self, table: TableClient, groups: EntityGroups) -> None:
        clock = FakeClock()
        clock.advance(60)
        self.figures = StoreFigures()
        self.outbox = TableOutbox(table, groups, shards=1, figures=self.figures, clock=clock)


@pytest.fixture
def sender(table: TableClient, groups: EntityGroups) -> Sender:
    """Create a sender for the test's table."""
    return Sender(table, groups)


@pytest.fixture
def retention(table: TableClient, groups: EntityGroups) -> TableTaskRetention:
    """Create the deletion of tasks for the test's table."""
    return TableTaskRetention(table, groups, shards=1, figures=StoreFigures())


async def test_time_of_a_sent_announcement_is_recorded(process: Process, sender: Sender) -> None:
    """In one transaction; the record shows it, and a second process that also sent it changes nothing."""
    await process.store.admit(ORDER)
    [received] = await sender.outbox.unsent(0, after(60), 10)
    await sender.outbox.mark_sent(received)
    assert sender.figures.transactions == 1
    await sender.outbox.mark_sent(received)
    assert await sender.outbox.unsent(0, after(60), 10) == []
    [sent] = (await process.read(TASK)).record.sent
    assert sent == SentAnnouncement(kind=AnnouncementKind.RECEIVED, epoch=FIRST, sent_at=after(60))


async def test_announcement_that_is_given_up_records_no_time(process: Process, sender: Sender) -> None:
    """It cannot be mistaken for one that was sent."""
    await process.store.admit(ORDER)
    [received] = announcements(None, ORDER)
    for _ in range(2):
        await sender.outbox.give_up(received)
    assert await sender.outbox.unsent(0, after(60), 10) == []
    assert (await process.read(TASK)).record.sent == ()


async def test_send_times_are_deleted_with_their_task(
    process: Process, sender: Sender, retention: TableTaskRetention
) -> None:
    """Nothing remains of a task whose retention has ended."""
    await process.store.admit(ORDER)
    stored = await process.told(TASK, claimed(), *done("pick", "send"))
    for announcement in await sender.outbox.unsent(0, after(60), 10):
        await sender.outbox.mark_sent(announcement)
    assert len((await process.read(TASK)).record.sent) == 2
    assert await retention.delete(stored)
    assert await process.rows() == {}


async def test_announcement_of_a_purged_task_leaves_no_mark(
    process: Process, sender: Sender, retention: TableTaskRetention
) -> None:
    """It is sent all the same; a new task under the id has sent nothing yet."""
    await process.store.admit(ORDER)
    stored = await process.told(TASK, claimed(), *done("pick", "send"))
    assert await retention.delete(stored)
    for announcement in await sender.outbox.unsent(0, after(600), 10):
        await sender.outbox.mark_sent(announcement)
    assert await process.rows() == {}


async def test_task_that_is_marked_during_its_purge_stays_until_the_next(
    process: Process, sender: Sender, retention: TableTaskRetention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the mark goes with it."""
    await process.store.admit(ORDER)
    stored = await process.told(TASK, claimed(), *done("pick", "send"))
    read = retention._etags

    async def mark_after_reading(shard: str, task: TaskId) -> dict[str, str]:
        etags = await read(shard, task)
        for announcement in await sender.outbox.unsent(0, after(600), 10):
            await sender.outbox.mark_sent(announcement)
        return etags

    with monkeypatch.context() as patched:
        patched.setattr(retention, "_etags", mark_after_reading)
        assert not await retention.delete(stored)
    assert await retention.delete(stored)
    assert await process.rows() == {}
