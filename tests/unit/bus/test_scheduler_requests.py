"""Requests for Schedulers: each run has a message of its own."""

from __future__ import annotations

from dataclasses import replace

from functions.bus.messages import QueuedMessages
from functions.bus.sender import Outgoing
from functions.pattern.announcements import announcements
from functions.pattern.crowds import SCHEDULERS, Behind, CrowdCause
from functions.pattern.easing import turn
from functions.pattern.identity import Parent, StepName
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import cancellation
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import after, pending, told
from tests.fakes.workflows import BIRTH, LINE, TASK


class _Sender:
    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    async def send(self, outgoing: Outgoing) -> None:
        self.sent.append(outgoing)


def _messages(sender: _Sender) -> QueuedMessages:
    return QueuedMessages(lambda _queue: sender, FakeClock())  # type: ignore[arg-type,return-value]


async def test_request_is_named_after_its_run() -> None:
    """Duplicate detection drops a repeat, and nothing else."""
    sender, task = _Sender(), pending(LINE).task
    messages = _messages(sender)
    for run in (None, 1, 2):
        await messages.request(replace(task, run=run), [])
    assert [each.message_id for each in sender.sent] == ["task-1.1", "task-1.1.1", "task-1.1.2"]
    body = b'{"schema_version":1,"task_id":"task-1","epoch":1,"queued":[],"ended":false}'
    assert sender.sent[0].body == body
    assert b'"run":2' in sender.sent[2].body


async def test_request_that_is_sent_again_on_purpose_is_no_repeat() -> None:
    """Each time it has another id; in the next epoch, that is its own again."""
    sender, record = _Sender(), pending(LINE)
    crowd = Behind(SCHEDULERS, CrowdCause.NOT_PICKED_UP)
    for seconds in (40, 400):
        now = after(seconds)
        record = told(record, turn(record, crowd, now, POLICY, in_crowd=True), now=now)
        await _messages(sender).request(record.task, [])
    resumed = told(record, turn(record, crowd, after(900), POLICY, in_crowd=False), now=after(900))
    await _messages(sender).request(resumed.task, [])
    assert [each.message_id for each in sender.sent] == ["task-1.1.r1", "task-1.1.r2", "task-1.2"]


async def test_scheduler_is_woken_once_for_each_event() -> None:
    """By a message that names the step."""
    sender, task = _Sender(), pending(LINE).task
    await _messages(sender).wake(task, StepName("mail.0"))
    [wake] = sender.sent
    assert (wake.message_id, wake.subject) == ("task-1.1.wake.mail.0", "wake")
    assert b'"wake":"mail.0"' in wake.body


async def test_end_of_a_child_goes_to_those_who_tell_its_parent() -> None:
    """Once for each end, on the queue of the Scheduler's own requests, where no step's name stands for it."""
    sender, record = _Sender(), pending(LINE)
    child = replace(
        record, order=replace(record.order, parent=Parent(task=TASK, birth=BIRTH, step=StepName("car")))
    )
    undone = told(child, cancellation(by_operator=True))
    for announcement in announcements(child, undone):
        await _messages(sender).send(announcement)
    await _messages(sender).wake(undone.task, StepName("ended"))
    ended, wake = sender.sent
    assert (ended.message_id, wake.message_id) == ("task-1.2.ended", "task-1.2.wake.ended")
    assert ended.body == b'{"schema_version":1,"task_id":"task-1","epoch":2,"queued":[],"ended":true}'
