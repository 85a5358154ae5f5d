"""A received message is retried within its lock; a failed one is sent again alone, and a lost one is kept."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from functions.core.record import NotDeployedError
from functions.messaging.message_format import QueueMessage, order_messages
from functions.messaging.received_messages import (
    DeliveryCounts,
    NotHandledError,
    QueueBatches,
    copy_of,
    handle,
)
from functions.messaging.rejected_messages import LostMessage, LostMessages, RejectedMessages
from functions.messaging.senders import SendError
from functions.storage.table_contract import CorruptRowError, TransientStorageError
from tests.fakes.simulated_table import SimulatedTable, TableFault
from tests.fakes.storage_process import START
from tests.unit.messaging.test_message_format import submission

MESSAGE = QueueMessage(message_id="m-1", body=b"{}")
AWAY = TransientStorageError("HTTP 503")


class Work:
    """Fails a number of times."""

    def __init__(self, failures: int, error: BaseException) -> None:
        self.failures, self.error = failures, error
        self.calls = 0

    async def __call__(self) -> str:
        """Fail, or return."""
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return "done"


@pytest.mark.parametrize(
    "error",
    [AWAY, SendError("gone"), NotDeployedError("w"), NotHandledError("late"), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
async def test_transient_error_is_retried(error: BaseException) -> None:
    """A short fault costs a delay, and no delivery; so does a future that another task has cancelled."""
    work = Work(2, error)
    assert await handle("submissions", MESSAGE, work) == "done"
    assert work.calls == 3


async def test_retries_end_within_the_lock() -> None:
    """The message is then delivered again."""
    work = Work(1_000, AWAY)
    with pytest.raises(TransientStorageError, match="503"):
        await handle("submissions", MESSAGE, work)
    assert 30 < asyncio.get_running_loop().time() <= 45
    assert work.calls > 8


@pytest.mark.parametrize("error", [CorruptRowError("t|task", "no JSON"), KeyError("x")], ids=repr)
async def test_other_error_is_raised_at_once(error: Exception) -> None:
    """A retry would not help."""
    work = Work(1, error)
    with pytest.raises(type(error)):
        await handle("submissions", MESSAGE, work)
    assert work.calls == 1


async def test_work_that_hangs_ends_in_time() -> None:
    """Otherwise the message would be handled twice at once. The error names the fault before it."""
    with pytest.raises(NotHandledError, match=r"^not done within 30 s$"):
        await handle("submissions", MESSAGE, asyncio.Event().wait, seconds=30)
    calls: list[float] = []

    async def fail_late_and_hang() -> None:
        calls.append(asyncio.get_running_loop().time())
        if len(calls) == 1:
            await asyncio.sleep(40)
            raise AWAY
        await asyncio.Event().wait()

    with pytest.raises(NotHandledError, match=r"not done within 45 s; before that: HTTP 503"):
        await handle("submissions", MESSAGE, fail_late_and_hang)
    assert asyncio.get_running_loop().time() - calls[0] == pytest.approx(45, abs=0.01)
    assert len(calls) == 2


async def test_cancelled_handler_ends() -> None:
    """The host stops."""
    handling = asyncio.create_task(handle("submissions", MESSAGE, asyncio.Event().wait))
    await asyncio.sleep(0)
    handling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handling


# Batches


class Queue:
    """A queue whose messages fail by their bodies, and the messages that are sent to it again."""

    def __init__(self, errors: Mapping[bytes, BaseException]) -> None:
        self.errors = errors
        self.done: list[bytes] = []
        self.sent: list[tuple[QueueMessage, timedelta]] = []
        self.lost: list[tuple[str, str]] = []
        self.put_error: Exception | None = None
        self.batches = QueueBatches("submissions", self.put, self.lose, lambda: START)

    async def put(self, queue: str, message: QueueMessage, not_before: datetime) -> None:
        """Send a message again."""
        if self.put_error is not None:
            raise self.put_error
        assert queue == "submissions"
        self.sent.append((message, not_before - START))

    async def lose(self, _queue: str, message: QueueMessage, reason: str) -> None:
        """Record a lost message."""
        self.lost.append((message.message_id, reason))

    async def work(self, message: QueueMessage) -> None:
        """Fail, or do it."""
        if message.body in self.errors:
            raise self.errors[message.body]
        self.done.append(message.body)

    async def take(self, *messages: QueueMessage) -> None:
        """Handle a batch."""
        await self.batches.handle(messages, self.work)


def named(body: bytes, name: str = "m-7", **properties: int) -> QueueMessage:
    """Return a message."""
    return QueueMessage(message_id=name, body=body, subject="s", correlation_id="c", properties=properties)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), AWAY, asyncio.CancelledError()], ids=lambda error: type(error).__name__
)
async def test_message_that_fails_is_sent_again_alone(error: BaseException) -> None:
    """Later, under another id, with its parts; the others of the batch are handled once."""
    queue = Queue({b"bad": error})
    bad = named(b"bad", weight=2)
    await queue.take(named(b"one"), bad, named(b"two"))
    assert queue.done == [b"one", b"two"]
    assert queue.sent == [(copy_of(bad, DeliveryCounts(attempts=1)), timedelta(seconds=2))]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(AWAY, "TransientStorageError: HTTP 503"), (RuntimeError("no card c4n4ry"), "RuntimeError")],
    ids=["a fault", "a defect, whose text may quote a secret"],
)
async def test_message_that_keeps_failing_is_lost(error: Exception, reason: str) -> None:
    """After ten attempts, which are counted in its properties; the delays grow."""
    queue, bad = Queue({b"bad": error}), named(b"bad")
    while not queue.lost:
        await queue.take(named(b"one"), bad)
        bad = queue.sent[-1][0]
    assert [delay.total_seconds() for _, delay in queue.sent] == [2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert len({message.message_id for message, _ in queue.sent}) == 9
    assert queue.lost == [(bad.message_id, f"failed 10 times: {reason}")]


async def test_batch_that_fails_as_a_whole_is_delivered_again() -> None:
    """It is an outage, and Service Bus counts the deliveries. So is one that cannot be sent again."""
    queue = Queue({b"one": AWAY, b"two": asyncio.CancelledError()})
    with pytest.raises(ExceptionGroup) as raised:
        await queue.take(named(b"one"), named(b"two"))
    assert (len(raised.value.exceptions), queue.sent) == (2, [])
    queue.put_error = SendError("gone")
    with pytest.raises(ExceptionGroup):
        await queue.take(named(b"one"), named(b"three"))
    await queue.take()


async def test_each_order_of_a_message_is_handled_separately() -> None:
    """A slow one delays no other one."""
    queue, let_go = Queue({}), asyncio.Event()
    [(group, _)] = order_messages([submission("slow"), submission("quick")], [None, None])

    async def work(message: QueueMessage) -> None:
        if b"slow" in message.body:
            await let_go.wait()
        await queue.work(message)
        let_go.set()

    await queue.batches.handle([group], work)
    assert queue.done == [submission("quick").body, submission("slow").body]


# Lost messages

PROPERTIES = {
    "DeadLetterReason": "MaxDeliveryCountExceeded",
    "DeadLetterErrorDescription": "10 times",
    "tenant": "blue",
}
BODY = b'{"task":"t-1","step":"pay"}'


class Desk:
    """Lost messages, and their alerts."""

    def __init__(self) -> None:
        self.table = SimulatedTable()
        self.rejected = RejectedMessages(self.table, lambda: START)
        self.alerts: list[LostMessage] = []
        self.lost = LostMessages(self.rejected, self._alert)

    async def _alert(self, lost: LostMessage) -> None:
        self.alerts.append(lost)

    async def take(self, queue: str, body: bytes = BODY, **properties: str) -> None:
        """Handle a dead letter."""
        given = properties or PROPERTIES
        await self.lost.take(queue, QueueMessage(message_id="m-1", body=body, subject="s", properties=given))


async def test_dead_letter_is_kept_logged_and_alerted(caplog: pytest.LogCaptureFixture) -> None:
    """With its queue, reason and task. A repetition is recorded once."""
    desk = Desk()
    for _ in range(2):
        await desk.take("agent-replies")
    reason = "MaxDeliveryCountExceeded: 10 times"
    assert desk.alerts == [LostMessage("agent-replies", "m-1", "t-1", reason)] * 2
    [kept] = (await desk.rejected.of_task("t-1", 5)).messages
    assert (kept.queue, kept.step, kept.reason) == ("agent-replies/$DeadLetterQueue", "pay", reason)
    resent = await desk.rejected.resend(kept.id, "olga", "why")
    assert resent is not None
    assert resent[1] is not None
    assert (resent[1].subject, resent[1].properties) == ("s", {"tenant": "blue"})
    line = next(each.getMessage() for each in caplog.records if each.levelno == logging.ERROR)
    assert json.loads(line.removeprefix("message lost ")) == {
        "queue": "agent-replies",
        "message_id": "m-1",
        "task": "t-1",
        "reason": reason,
    }


async def test_lost_alert_is_logged_only(caplog: pytest.LogCaptureFixture) -> None:
    """An alert about it could be lost as well. The reason in an alert is bounded."""
    desk = Desk()
    for script in ("x", "語", "😀", '"'):
        await desk.take("submissions", DeadLetterReason=script * 4096)
        assert len(desk.alerts.pop().reason.encode()) <= 1024
    await desk.take("operator-alerts", b"{", other="x")
    assert (desk.alerts, "no reason given" in caplog.text) == ([], True)
    assert [each.queue for each in (await desk.rejected.listed((), 9)).messages].count(
        "operator-alerts/$DeadLetterQueue"
    ) == 1


async def test_dead_letter_that_cannot_be_recorded_stays() -> None:
    """Nothing is alerted yet."""
    desk = Desk()
    desk.table.fail_next(TableFault.NOT_SENT)
    with pytest.raises(TransientStorageError):
        await desk.take("submissions")
    assert desk.alerts == []


async def test_orders_of_a_dead_letter_are_kept_separately() -> None:
    """Each can be sent again, or discarded."""
    desk = Desk()
    [(group, _)] = order_messages([submission("a"), submission("b")], [None, None])
    await desk.lost.take("submissions", group)
    found = (await desk.rejected.listed((), 9)).messages
    assert {each.task for each in found} == {"a", "b"}
    assert sorted(each.message_id for each in found) == [f"{group.message_id}.{n}" for n in range(2)]
