"""What a crash or an outage kept from being sent is sent by the next sweep."""

from __future__ import annotations

import pytest

from functions.pattern.announcements import Announcement
from functions.pattern.identity import TaskId
from functions.pattern.states import AnnouncementKind, ProcessState
from tests.fakes.tasks import FIRST, after, pending
from tests.fakes.workflows import LINE, TASK
from tests.unit.supervisor.conftest import Bench

DAY = 24 * 60 * 60


def _announcement(
    kind: AnnouncementKind = AnnouncementKind.COMPLETED,
    *,
    task: TaskId = TASK,
    seconds: float = 0,
    reply_to: str = "notices",
) -> Announcement:
    return Announcement(
        kind=kind,
        task=task,
        epoch=FIRST,
        at=after(seconds),
        workflow="line",
        state=ProcessState.PROCESSED,
        reply_to=reply_to,
        correlation_id=None,
        reason=None,
    )


@pytest.mark.parametrize("times", [1, 2])
async def test_left_over_announcement_is_sent_and_recorded(bench: Bench, times: int) -> None:
    """Who recorded it crashed before it was sent; its row goes, even if it was marked before."""
    bench.store.put(pending(LINE))
    bench.clock.advance(31)
    for _ in range(times):
        bench.outbox.waiting = [_announcement()]
        assert (await bench.sweep()).sent == 1
    assert bench.queues.told == [_announcement()] * times
    [sent] = bench.store.record(TASK).task.sent
    assert (sent.kind, sent.epoch, sent.sent_at) == (AnnouncementKind.COMPLETED, FIRST, after(31))


async def test_announcement_of_a_purged_task_is_sent_once(bench: Bench) -> None:
    """There is no task to mark it on, and its row goes."""
    bench.outbox.waiting = [_announcement()]
    bench.clock.advance(31)
    assert [(await bench.sweep()).sent for _ in range(2)] == [1, 0]
    assert bench.outbox.waiting == []


async def test_fresh_announcement_is_left_to_who_recorded_it(bench: Bench) -> None:
    """It is probably being sent this moment."""
    bench.outbox.waiting = [_announcement()]
    bench.clock.advance(30)
    await bench.sweep()
    assert bench.queues.attempts == 0


async def test_announcements_of_one_queue_keep_their_order(bench: Bench) -> None:
    """A caller learns of things in the order in which they happened."""
    kinds = [AnnouncementKind.RECEIVED, AnnouncementKind.FAILED, AnnouncementKind.COMPENSATED]
    bench.outbox.waiting = [_announcement(kind, seconds=number) for number, kind in enumerate(kinds)]
    bench.clock.advance(60)
    await bench.sweep()
    assert [each.kind for each in bench.queues.told] == kinds


async def test_queue_that_is_gone_holds_up_no_other(bench: Bench) -> None:
    """It is tried once in a sweep, and its notices stay."""
    lost = [_announcement(task=TaskId(f"lost-{number}"), reply_to="gone") for number in range(3)]
    bench.outbox.waiting = [*lost, _announcement(seconds=1)]
    bench.queues.gone = {"gone"}
    bench.clock.advance(60)
    figures = await bench.sweep()
    assert (bench.queues.attempts, figures.failures, figures.dropped) == (2, 1, 0)
    assert bench.outbox.waiting == lost


async def test_queue_that_takes_nothing_holds_up_no_other_however_much_it_is_owed(bench: Bench) -> None:
    """Its notices are older, and more than a sweep reads: the others' are sent all the same."""
    dead = [_announcement(task=TaskId(f"dead-{number}"), reply_to="gone") for number in range(250)]
    others = [_announcement(seconds=1, reply_to=queue) for queue in ("a", "z")]
    bench.outbox.waiting = [*dead, *others]
    bench.queues.gone = {"gone"}
    bench.clock.advance(60)
    assert ((await bench.sweep()).sent, bench.queues.attempts) == (2, 3)
    assert bench.queues.told == others


async def test_announcement_of_a_task_that_cannot_be_read_is_sent_once(bench: Bench) -> None:
    """It can't be marked on the task; its row goes, and the others of its queue are sent."""
    bench.store.put(pending(LINE))
    other = _announcement(task=TaskId("task-2"), seconds=1)
    bench.outbox.waiting = [_announcement(), other]
    bench.store.damaged = {TASK}
    bench.clock.advance(60)
    assert [(await bench.sweep()).sent for _ in range(2)] == [2, 0]
    assert (bench.outbox.waiting, len(bench.damage.alerts)) == ([], 1)


async def test_notice_is_dropped_after_a_day(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Its reply queue has taken nothing for so long; younger ones stay."""
    young = _announcement(task=TaskId("young"), seconds=10)
    bench.outbox.waiting = [_announcement(), young]
    bench.queues.gone = {"notices"}
    bench.clock.advance(DAY + 5)
    figures = await bench.sweep()
    assert (bench.outbox.waiting, figures.dropped) == ([young], 1)
    assert "task task-1: completed was never sent, its reply queue notices takes nothing" in caplog.messages


async def test_notice_older_than_a_day_is_sent_where_its_queue_is_back(bench: Bench) -> None:
    """Only a queue that fails still drops it."""
    bench.outbox.waiting = [_announcement()]
    bench.clock.advance(3 * DAY)
    assert (await bench.sweep()).sent == 1


@pytest.mark.parametrize("kind", [AnnouncementKind.ALERT, AnnouncementKind.ENDED])
async def test_what_is_no_notice_is_never_dropped(bench: Bench, kind: AnnouncementKind) -> None:
    """No problem may go unseen, and no parent wait in vain."""
    bench.outbox.waiting = [_announcement(kind)]
    bench.queues.gone = {"notices"}
    bench.clock.advance(3 * DAY)
    assert (await bench.sweep()).dropped == 0
    bench.queues.gone = set()
    assert (await bench.sweep()).sent == 1


async def test_more_than_a_sweep_takes_is_left_to_the_next(bench: Bench) -> None:
    """And the figures say so."""
    bench.outbox.waiting = [_announcement(task=TaskId(f"task-{number}")) for number in range(130)]
    bench.clock.advance(60)
    first, second = await bench.sweep(), await bench.sweep()
    assert [(each.sent, each.unfinished) for each in (first, second)] == [(100, True), (30, False)]
