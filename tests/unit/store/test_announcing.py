"""Announcements follow a recorded change, and are recorded as sent with the next change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from unittest.mock import create_autospec

import pytest

from functions.pattern.announcements import Announcement, announcements
from functions.pattern.errors import TransientError
from functions.pattern.events import AnnouncementSent, Event
from functions.pattern.identity import Parent, StepName, TaskId, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind, ProcessState
from functions.pattern.wait_events import EventReceived, HandedBack
from functions.store import announcing, task_writer
from functions.store.announcing import Announcer
from tests.fakes.interventions import done, refused, resubmission
from tests.fakes.supervision import Queues, RecordedRequests
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import BIRTH, LINE, TASK, awaiting, step, workflow
from tests.unit.store.rows import MemoryRows, Writer

_PLAIN = pending(LINE)
ORDER = replace(_PLAIN, order=replace(_PLAIN.order, reply_to="notices-demo"))


class HeldQueues(Queues):
    """Take nothing before they are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()

    async def send(self, announcement: Announcement) -> None:
        """Wait, then record the announcement."""
        await self.opened.wait()
        await super().send(announcement)


class Desk:
    """A writer whose changes are announced."""

    def __init__(self, queues: Queues | None = None, *, holds: TaskRecord = ORDER) -> None:
        self.queues = queues or Queues()
        self.requests = RecordedRequests()
        self.rows = MemoryRows(holds)
        self.writer = Writer(self.rows)
        self.announcer = Announcer(
            self.writer.writer, announcements=self.queues, requests=self.requests, clock=self.writer.clock
        )

    async def told(self, *events: Event) -> None:
        """Change the task, and announce each change."""
        for event in events:
            before = self.rows.record(TASK)
            await self.writer.knows(event)
            await self.announcer.announce(before, self.rows.record(TASK))

    async def settle(self) -> None:
        """Wait until everything is sent and recorded."""
        await self.announcer.settle()
        await self.writer.writer.settle()

    @property
    def kinds(self) -> list[AnnouncementKind]:
        """Name what was sent."""
        return [each.kind for each in self.queues.told]

    @property
    def left(self) -> list[str]:
        """List the rows of the outbox."""
        return [key for key in self.rows.entities if key.startswith("!send")]


async def test_notices_are_sent_and_recorded_without_anybody_waiting() -> None:
    """A slow reply queue holds up no task."""
    desk = Desk(queues := HeldQueues())
    await desk.announcer.announce(None, ORDER)
    await desk.told(claimed(), *done("pick", "send"))
    await asyncio.sleep(0)
    assert (desk.kinds, len(desk.left)) == ([], 2)
    queues.opened.set()
    await desk.settle()
    assert desk.kinds == [AnnouncementKind.RECEIVED, AnnouncementKind.COMPLETED]
    sent = [(each.kind, each.sent_at) for each in desk.rows.record(TASK).task.sent]
    assert sent == [(kind, desk.writer.clock.now()) for kind in desk.kinds]
    assert desk.left == []


async def test_alert_and_request_are_sent_before_the_change_returns() -> None:
    """The next epoch waits for its Scheduler, and an operator for the alert."""
    desk = Desk(holds=_PLAIN)
    await desk.told(claimed(), *refused("pick"))
    assert desk.kinds == [AnnouncementKind.ALERT]
    await desk.told(resubmission(FIRST))
    assert desk.requests.asked == [(TASK, SECOND)]
    await desk.settle()


async def test_notices_of_a_queue_beyond_the_bound_are_left_in_the_outbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue that takes nothing makes nobody wait, and others' notices go their way."""
    monkeypatch.setattr(announcing, "_MOST_ON_THEIR_WAY", 1)
    desk = Desk(queues := HeldQueues())
    other = replace(ORDER, order=replace(ORDER.order, reply_to="notices-other"))
    async with asyncio.timeout(5):
        for order in (ORDER, ORDER, other):
            await desk.announcer.announce(None, order)
    queues.opened.set()
    await desk.settle()
    assert [each.reply_to for each in queues.told] == ["notices-demo", "notices-other"]


@pytest.mark.parametrize("fault", [TransientError("no broker"), RuntimeError("a defect")])
async def test_what_cannot_be_sent_stays_in_the_outbox(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The change holds; the Supervisor finds request and notice."""

    async def fail(*_: object) -> None:
        raise fault

    desk = Desk()
    desk.queues.send = fail  # type: ignore[method-assign,assignment]
    desk.requests.request = fail  # type: ignore[method-assign,assignment]
    await desk.told(claimed(), *refused("pick"), resubmission(FIRST))
    await desk.settle()
    assert len(desk.left) == 3
    assert sum("Supervisor" in text or "failed" in text for text in caplog.messages) == 3


async def test_event_asks_for_the_next_run_or_wakes_the_scheduler() -> None:
    """Whichever there is: nobody holds what was handed back."""
    flow = workflow(awaiting("approve"), step("other"))
    waiting = told(pending(flow), claimed(), started("approve", complete_by=3600))
    event = EventReceived(step=StepName("approve"), body=b"{}", who="anna", start_by=after(30))
    held = Desk(holds=waiting)
    await held.told(event)
    assert (held.requests.woken, held.requests.asked) == ([(TASK, None, "approve")], [])
    idle = Desk(holds=told(waiting, *done("other")))
    await idle.told(HandedBack(epoch=FIRST, scheduler=scheduler_id(TASK, FIRST)))
    assert idle.requests.asked == []
    await idle.told(replace(event, body=b'{"approved":true}'))
    assert idle.rows.record(TASK).task.process_state is ProcessState.PROCESSED


async def test_end_of_a_child_is_on_record_until_it_is_sent() -> None:
    """In the transaction that ends it: a crash before it is sent leaves the row to a sweep."""
    parent = Parent(task=TaskId("trip-1"), birth=BIRTH, step=StepName("car"))
    desk = Desk(queues := HeldQueues(), holds=replace(_PLAIN, order=replace(_PLAIN.order, parent=parent)))
    await desk.told(claimed(), *done("pick", "send"))
    assert len(desk.left) == 1
    queues.opened.set()
    await desk.settle()
    assert (desk.kinds, desk.left) == ([AnnouncementKind.ENDED], [])


def _sent(record: TaskRecord = ORDER, before: TaskRecord | None = None) -> AnnouncementSent:
    [announcement] = announcements(before, record)
    return AnnouncementSent(announcement=announcement, sent_at=after(1))


def _kinds(rows: MemoryRows) -> list[AnnouncementKind]:
    return [each.kind for each in rows.record(TASK).task.sent]


async def test_note_goes_with_the_next_change() -> None:
    """And its outbox row with it: one transaction."""
    rows = MemoryRows(ORDER)
    writer = Writer(rows)
    await writer.knows(claimed())
    writer.writer.note(TASK, _sent())
    await asyncio.sleep(0.01)
    assert len(rows.sent) == 1
    await writer.knows(*done("pick"))
    assert len(rows.sent) == 3
    assert _kinds(rows) == [AnnouncementKind.RECEIVED]
    assert not any(key.startswith("!send") for key in rows.entities)
    assert writer.is_idle


async def test_note_waits_for_a_moment_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is written by itself."""
    monkeypatch.setattr(task_writer, "_NOTE_WAITS", 0.01)
    monkeypatch.setattr(task_writer, "_NOTES_EVERY", 0.01)
    rows = MemoryRows(ORDER)
    writer = Writer(rows)
    await writer.knows(claimed())
    writer.writer.note(TASK, _sent())
    async with asyncio.timeout(10):
        while not _kinds(rows):
            await asyncio.sleep(0.001)
    assert len(rows.sent) == 2
    await writer.writer.settle()
    assert writer.is_idle


@pytest.mark.parametrize("is_known", [True, False], ids=["finished", "unknown"])
async def test_note_of_a_task_that_does_not_go_on_is_written_soon(
    monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    """There is no change that could take it along; a task that this process has finished is not read."""
    monkeypatch.setattr(task_writer, "_NOTE_WAITS", 3600)
    monkeypatch.setattr(task_writer, "_NOTES_EVERY", 0.01 if is_known else 3600)
    rows = MemoryRows(ORDER)
    writer = Writer(rows)
    await writer.knows(claimed(), *done("pick", "send"))
    noting = writer if is_known else Writer(rows)
    reads = rows.reads
    noting.writer.note(TASK, _sent())
    async with asyncio.timeout(10):
        while not noting.is_idle:
            await asyncio.sleep(0.001)
    assert _kinds(rows) == [AnnouncementKind.RECEIVED]
    assert rows.reads == reads + (not is_known)


async def test_notes_of_finished_tasks_are_written_at_the_same_moments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that those of many tasks share transactions, whenever each of them came."""
    loop = asyncio.get_running_loop()
    moments: list[float] = []
    monkeypatch.setattr(loop, "call_at", lambda at, *_, **__: moments.append(at))
    monkeypatch.setattr(loop, "call_later", create_autospec(loop.call_later))
    for now in (100.01, 100.3, 100.5, 100.9):
        writer = Writer(MemoryRows(ORDER))
        await writer.knows(claimed(), *done("pick", "send"))
        monkeypatch.setattr(loop, "time", lambda now=now: now)
        writer.writer.note(TASK, _sent())
    assert moments == [100.5, 100.5, 101, 101]


async def test_note_that_is_lost_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for it; the Supervisor sends the announcement once more."""
    rows = MemoryRows(ORDER)
    writer = Writer(rows)
    rows.error = RuntimeError("a defect")
    writer.writer.note(TASK, _sent())
    await writer.writer.settle()
    assert "task task-1: AnnouncementSent is not recorded (a defect)" in caplog.messages


async def test_note_joins_what_is_tried_again() -> None:
    """It is lost neither while the store fails."""
    rows = MemoryRows(ORDER)
    writer = Writer(rows)
    rows.error = TransientError("503")
    telling = asyncio.create_task(writer.tell(claimed()))
    writer.writer.note(TASK, _sent())
    for _ in range(20):
        await asyncio.sleep(0)
    rows.error = None
    await telling
    await writer.writer.settle()
    assert _kinds(rows) == [AnnouncementKind.RECEIVED]


async def test_announcement_whose_row_is_gone_is_still_recorded_as_sent() -> None:
    """The Supervisor gave it up meanwhile: the change that goes with the mark is not held up."""
    rows = MemoryRows(ORDER)
    writer = Writer(rows)
    rows.remove("!send")
    await asyncio.gather(writer.tell(claimed()), writer.tell(_sent()))
    assert _kinds(rows) == [AnnouncementKind.RECEIVED]
    assert rows.record(TASK).task.locked_by == "task-1.1"
