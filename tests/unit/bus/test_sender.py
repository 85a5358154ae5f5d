"""Messages that wait together leave as one batch, each known to duplicate detection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusConnectionError

from functions.bus.messages import QueuedMessages
from functions.bus.sender import Outgoing, QueueSender
from functions.pattern.announcements import announcements
from functions.pattern.crowds import SCHEDULERS, Behind, CrowdCause
from functions.pattern.easing import turn
from functions.pattern.errors import TransientError
from functions.pattern.identity import Parent, StepName
from functions.pattern.messages import SubmissionMessage
from functions.pattern.rejected import Content, Labels
from functions.pattern.request_figures import BusFigures
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import cancellation
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import after, pending, told
from tests.fakes.workflows import BIRTH, LINE, TASK, submission


class BusClient:
    """A client with senders that keep what they send."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.batches: list[list[ServiceBusMessage]] = []
        self.failure: Exception | None = None

    def get_queue_sender(self, queue: str) -> BusClient:
        """Open a sender."""
        self.queues.append(queue)
        return self

    async def send_messages(
        self, messages: ServiceBusMessage | Sequence[ServiceBusMessage], **_options: object
    ) -> None:
        """Send a batch, or one message."""
        if self.failure is not None:
            raise self.failure
        self.batches.append([messages] if isinstance(messages, ServiceBusMessage) else list(messages))
        await asyncio.sleep(0)


@pytest.fixture
def client() -> BusClient:
    """Make a client that has sent nothing."""
    return BusClient()


@pytest.fixture
def figures() -> BusFigures:
    """Make figures that count from zero."""
    return BusFigures()


@pytest.fixture
def sender(client: BusClient, figures: BusFigures) -> QueueSender:
    """Make a sender over that client."""
    return QueueSender(cast("ServiceBusClient", client), "submissions", figures)


def _outgoing(name: str, size: int = 2) -> Outgoing:
    return Outgoing(message_id=name, body=b"x" * size, subject="orders", correlation_id="c-1")


async def test_message_carries_what_the_receiver_needs(client: BusClient, sender: QueueSender) -> None:
    """Its id, type, subject and correlation id."""
    await sender.send(_outgoing("m-1"))
    [[message]] = client.batches
    assert (message.message_id, message.subject, message.correlation_id) == ("m-1", "orders", "c-1")
    assert message.content_type == "application/json"
    assert b"".join(message.body) == b"xx"


async def test_messages_that_wait_together_leave_together(
    client: BusClient, sender: QueueSender, figures: BusFigures
) -> None:
    """Over one sender, which is opened once."""
    await asyncio.gather(*(sender.send(_outgoing(f"m-{n}")) for n in range(20)))
    assert sum(len(batch) for batch in client.batches) == 20
    assert len(client.batches) <= 2
    assert client.queues == ["submissions"]
    assert figures.messages == 20


async def test_batch_is_never_larger_than_the_service_takes(client: BusClient, sender: QueueSender) -> None:
    """256 KB on the Standard tier, headers included."""
    await asyncio.gather(*(sender.send(_outgoing(f"m-{n}", 48 * 1024)) for n in range(9)))
    sizes = [sum(len(b"".join(message.body)) for message in batch) for batch in client.batches]
    assert sum(sizes) == 9 * 48 * 1024
    assert max(sizes) <= 200_000


async def test_unreachable_queue_is_a_transient_fault(
    client: BusClient, sender: QueueSender, figures: BusFigures
) -> None:
    """The SDK's errors stay inside; nothing is counted as sent."""
    client.failure = ServiceBusConnectionError(message="no road")
    with pytest.raises(TransientError):
        await sender.send(_outgoing("m-1"))
    assert figures.messages == 0


async def test_submission_is_known_by_id_and_content(client: BusClient, sender: QueueSender) -> None:
    """The same again is dropped by the queue; other content under that id is not, so that it is seen."""
    submissions = QueuedMessages(lambda _queue: sender, FakeClock())
    sent = [submission(weight=weight) for weight in (3, 3, 4)]
    for message in sent:
        await submissions.submit(message)
    first, again, other = [str(batch[0].message_id) for batch in client.batches]
    assert first == again != other
    assert first.startswith("task-1.")
    assert len(first) <= 128
    body = b"".join(client.batches[0][0].body)
    assert SubmissionMessage.model_validate_json(body) == sent[0]


async def test_message_that_is_put_again_comes_when_its_time_has_come(
    client: BusClient, sender: QueueSender
) -> None:
    """Under the id that it is given, with what it carried, and in its own trace."""
    postbox, trace = QueuedMessages(lambda _queue: sender, FakeClock()), f"00-{'1' * 32}-{'2' * 16}-01"
    message = submission()
    await postbox.submit(message)
    labels = Labels(subject=message.workflow, properties={"attempts": 2, "traceparent": trace})
    await postbox.put("submissions", "m-1.a2", Content(message.written, labels), not_before=after(60))
    first, again = (batch[0] for batch in client.batches)
    assert [each.scheduled_enqueue_time_utc for each in (first, again)] == [None, after(60)]
    assert (again.message_id, again.subject, b"".join(again.body)) == ("m-1.a2", "diamond", message.written)
    assert again.application_properties == {"attempts": 2, "traceparent": trace}


@pytest.mark.parametrize("number", [-(2**31) - 1, 2**31, 1_790_000_000_000])
async def test_large_number_beside_a_message_harms_no_neighbour(
    client: BusClient, sender: QueueSender, number: int
) -> None:
    """The client can't encode it, nor the batch in which it is; it goes on as a text."""
    postbox = QueuedMessages(lambda _queue: sender, FakeClock())
    labels = Labels(properties={"sent_at": number, "tries": 3})
    await asyncio.gather(
        postbox.put("submissions", "m-1", Content(b"{}", labels)), postbox.submit(submission())
    )
    for each in client.batches[0]:
        encode_payload(bytearray(), PyamqpTransport.to_outgoing_amqp_message(each.raw_amqp_message))
    assert client.batches[0][0].application_properties == {"sent_at": str(number), "tries": 3}


async def test_what_a_message_carries_counts_for_the_size_of_its_batch(
    client: BusClient, sender: QueueSender
) -> None:
    """A batch that is too large is refused whole, again and again."""
    postbox = QueuedMessages(lambda _queue: sender, FakeClock())
    large = Content(b"{}", Labels(properties={"note": "x" * 30_000}))
    await asyncio.gather(*(postbox.put("submissions", f"m-{number}", large) for number in range(20)))
    assert sum(map(len, client.batches)) == 20
    assert max(map(len, client.batches)) <= 6


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
