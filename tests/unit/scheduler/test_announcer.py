"""Announcements of changes: each message is sent once, and no fault reaches the writer of the change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from functions.core.record import Message, TaskRecord
from functions.core.task_events import Due
from functions.messaging.announcer import Announcer
from functions.messaging.task_messages import RunRequest, SchedulerMessage, WakeRequest
from functions.storage.task_inbox import Transition
from tests.fakes.storage_process import no_client, virtual_now
from tests.unit.core.builders import RESUME, SETTINGS, SUSPEND, after, end, new, queue, spec, start
from tests.unit.storage.virtual import virtual


class Bus:
    """The messages that were sent and forgotten, and the runs that were started; all may fail."""

    def __init__(self, *, starts_runs: bool = False) -> None:
        self.sent: list[SchedulerMessage] = []
        self.forgotten: list[Message] = []
        self.started: list[RunRequest] = []
        self.failing: set[str] = set()
        self.fault: BaseException = ConnectionError("no broker")
        self.hangs = False
        start_run = self._start_run if starts_runs else no_client
        self.announcer = Announcer(send=self._send, start_run=start_run)

    async def _send(self, message: SchedulerMessage) -> None:
        if self.hangs:
            await asyncio.sleep(3600)
        if message.id in self.failing:
            raise self.fault
        self.sent.append(message)

    async def _start_run(self, request: RunRequest) -> bool:
        if "start" in self.failing:
            raise ConnectionError("no Durable")
        self.started.append(request)
        return True

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Announce a change, and note the messages that need no row any more."""
        self.forgotten += await self.announcer.announce(Transition(before, after))


def stored(record: TaskRecord) -> TaskRecord:
    """Return a record as it is read again."""
    return replace(record, outbox=(), closed=())


TWO = new(spec("a"), spec("b", "a"), reply_to="replies")


@virtual
async def test_new_task_is_announced() -> None:
    """Its first run is requested, and its notice is sent and forgotten."""
    bus = Bus()
    await bus.announce(None, TWO)
    assert RunRequest(task="t", epoch=1, run=1) in bus.sent
    [notice] = TWO.outbox
    assert bus.forgotten == [notice]
    assert len(bus.sent) == 2


@virtual
async def test_run_is_started_directly_if_possible(caplog: pytest.LogCaptureFixture) -> None:
    """If the direct start fails, a message requests the run. It is sent once, even if that fails, too."""
    bus = Bus(starts_runs=True)
    await bus.announce(None, TWO)
    request = RunRequest(task="t", epoch=1, run=1)
    assert (bus.started, request in bus.sent) == ([request], False)
    bus.failing.add("start")
    await bus.announce(None, TWO)
    assert request in bus.sent
    bus.failing.add(request.id)
    await bus.announce(None, TWO)
    assert caplog.text.count(f"{request.id} is not sent: ConnectionError: no broker") == 1


@virtual
async def test_change_of_a_run_requests_no_other_run() -> None:
    """A run continues with the steps that its own outcomes made ready. A finished task needs nothing."""
    bus = Bus()
    before = stored(TWO)
    started = after(before, start(before, "a"))
    await bus.announce(before, started)
    await bus.announce(started, replace(after(started, end(started, "a")), run=started.run))
    waiting = stored(new(queue("a")))
    waiting = after(waiting, start(waiting, "a"))
    await bus.announce(waiting, stored(after(waiting, end(waiting, "a"))))
    assert bus.sent == []


@virtual
async def test_step_that_became_ready_gets_a_run() -> None:
    """A suspended task gets none; its resumption requests the next one."""
    bus = Bus()
    before = stored(new(queue("a"), spec("b", "a")))
    before = after(before, start(before, "a"))
    replied = after(before, end(before, "a"))
    await bus.announce(before, replied)
    assert bus.sent == [RunRequest(task="t", epoch=1, run=2)]
    suspended = after(before, SUSPEND)
    later = after(suspended, end(suspended, "a"))
    await bus.announce(suspended, later)
    assert len(bus.sent) == 1
    await bus.announce(later, after(later, RESUME))
    assert bus.sent[1:] == [RunRequest(task="t", epoch=1, run=2)]


@virtual
async def test_next_epoch_gets_a_run_unless_it_waits() -> None:
    """The wait of an extended recovery is scheduled instead."""
    bus = Bus()
    quick = replace(SETTINGS, threshold=0, extended_waits=(timedelta(seconds=100),))
    before = stored(TWO)
    recovered = after(before, Due(may_recover=True), seconds=60)
    await bus.announce(before, recovered)
    assert bus.sent == [RunRequest(task="t", epoch=2, run=1)]
    waits = after(before, Due(may_recover=True), seconds=60, settings=quick)
    await bus.announce(before, waits)
    [wake] = bus.sent[1:]
    assert isinstance(wake, WakeRequest)
    assert wake.at == wake.not_before == waits.resume_at
    await bus.announce(waits, replace(waits, reason="another change"))
    assert len(bus.sent) == 2


@pytest.mark.parametrize("fault", [ConnectionError(), asyncio.CancelledError()])
@virtual
async def test_message_that_is_not_sent_stays_in_the_outbox(
    caplog: pytest.LogCaptureFixture, fault: BaseException
) -> None:
    """The other messages of the change are sent and forgotten. The client may cancel its own send."""
    bus = Bus()
    bus.fault = fault
    [notice] = TWO.outbox
    other = replace(notice, id="other")
    bus.failing.add(notice.id)
    await bus.announce(None, replace(TWO, outbox=(notice, other, other)))
    assert bus.forgotten == [other]
    assert f"{notice.id} is not sent" in caplog.text


@virtual
async def test_broker_that_hangs_delays_the_writer_for_a_bounded_time() -> None:
    """The calls of a run begin after its announcement."""
    bus = Bus()
    bus.hangs = True
    began_at = virtual_now()
    await bus.announce(None, TWO)
    assert virtual_now() - began_at < timedelta(seconds=11)
    assert bus.forgotten == []
    sending = asyncio.create_task(bus.announcer.send_once(RunRequest(task="t", epoch=1, run=1)))
    await asyncio.sleep(1)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):  # the caller itself was cancelled
        await sending


@virtual
async def test_no_fault_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    """The change is written: a defect is logged."""
    await Bus().announce(None, replace(TWO, outbox=None))  # type: ignore[arg-type]
    assert "a change is not announced" in caplog.text
