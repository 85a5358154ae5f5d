"""Notes: what is told in passing costs no transaction of its own while the task goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from unittest.mock import create_autospec

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.errors import TransientError
from functions.pattern.events import AnnouncementSent
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind
from functions.store import task_writer
from tests.fakes.interventions import done
from tests.fakes.tasks import after, claimed, pending
from tests.fakes.workflows import LINE, TASK
from tests.unit.store.rows import MemoryRows
from tests.unit.store.writers import Writer

_PLAIN = pending(LINE)
ORDER = replace(_PLAIN, order=replace(_PLAIN.order, reply_to="notices-demo"))


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
