"""What follows a recorded change: requests and alerts are sent before it returns, notices soon after."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from functions.pattern.announcements import Announcement
from functions.pattern.errors import TransientError
from functions.pattern.events import (
    Event,
)
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind, ProcessState
from functions.pattern.wait_events import EventReceived, HandedBack
from functions.store import announcing
from functions.store.announcing import Announcer
from tests.fakes.interventions import done, refused, resubmission
from tests.fakes.supervision import Queues, RecordedRequests
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import LINE, TASK, awaiting, step, workflow
from tests.unit.store.rows import MemoryRows
from tests.unit.store.writers import Writer

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
