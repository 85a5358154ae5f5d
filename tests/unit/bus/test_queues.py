"""Queues are peeked: counted up to a limit, and unknown where a peek fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import pytest
from azure.servicebus import ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusConnectionError

from functions.bus import queue_depths
from functions.bus.queue_depths import PeekedLine, PeekedQueues
from functions.pattern.errors import TransientError
from functions.pattern.intake import Line
from functions.pattern.ports import Pile, QueueDepth
from tests.fakes.clock import START


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as far as it is looked at."""

    sequence_number: int
    state: ServiceBusMessageState = ServiceBusMessageState.ACTIVE

    @property
    def enqueued_time_utc(self) -> object:
        """Tell when it came: each a minute after the one before."""
        return START + timedelta(minutes=self.sequence_number)


#: What the fake gives in one answer at most.
MOST_IN_AN_ANSWER = 60


class Receiver:
    """A receiver that can be peeked with, unless it fails or hangs."""

    def __init__(self, messages: Sequence[Message], failure: BaseException | None) -> None:
        self._messages = messages
        self._failure = failure
        self.hangs = False
        self.closed = False

    async def peek_messages(self, most: int, *, sequence_number: int) -> list[Message]:
        """Give messages from a number on."""
        if self.hangs:
            await asyncio.Event().wait()
        if self._failure is not None:
            raise self._failure
        following = [each for each in self._messages if each.sequence_number >= sequence_number]
        return following[: min(most, MOST_IN_AN_ANSWER)]

    async def close(self) -> None:
        """Close."""
        self.closed = True


class Client:
    """A client whose queues hold what the test says."""

    def __init__(self, messages: Sequence[Message] = (), failure: BaseException | None = None) -> None:
        self.receivers: list[Receiver] = []
        self.failure = failure
        self._messages = messages

    def get_queue_receiver(
        self, _queue: str, *, sub_queue: ServiceBusSubQueue | None, prefetch_count: int
    ) -> Receiver:
        """Open a receiver; a dead-letter queue is empty."""
        assert prefetch_count == 0
        self.receivers.append(Receiver(() if sub_queue else self._messages, self.failure))
        return self.receivers[-1]


def _queues(client: Client) -> PeekedQueues:
    return PeekedQueues(lambda: cast("ServiceBusClient", client), ["orders"])


async def test_messages_are_counted_and_the_oldest_is_named() -> None:
    """Those that are scheduled wait for a time of their own, and are counted apart."""
    scheduled = Message(3, ServiceBusMessageState.SCHEDULED)
    [depth] = await _queues(Client([Message(1), Message(2), scheduled])).depths()
    waiting = Pile(2, more=False, oldest_at=START + timedelta(minutes=1), scheduled=1)
    assert depth == QueueDepth("orders", waiting, Pile(0, more=False, oldest_at=None))


@pytest.mark.parametrize(("there", "more"), [(99, False), (150, True)])
async def test_counting_ends_at_a_hundred(there: int, more: bool) -> None:  # noqa: FBT001 - a case
    """And says so; a short answer is not the end."""
    [depth] = await _queues(Client([Message(number) for number in range(1, there + 1)])).depths()
    assert depth.waiting is not None
    assert (depth.waiting.count, depth.waiting.more) == (min(there, 100), more)


@pytest.mark.parametrize(
    "failure",
    [ServiceBusConnectionError(message="gone"), ValueError("closed"), asyncio.CancelledError("of its own")],
)
async def test_queue_that_can_not_be_seen_is_unknown(failure: BaseException) -> None:
    """The next look begins anew; that a task of the client was cancelled ends no look."""
    client = Client([Message(1)], failure)
    queues = _queues(client)
    assert await queues.depths() == [QueueDepth("orders", None, None)]
    assert all(receiver.closed for receiver in client.receivers)
    client.failure = None
    [depth] = await queues.depths()
    assert depth.waiting is not None


async def test_receivers_stay_open_between_looks() -> None:
    """One for the queue, and one for its dead letters."""
    client = Client()
    queues = _queues(client)
    await queues.depths()
    await queues.depths()
    assert len(client.receivers) == 2


async def test_look_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overview does not wait for a queue."""
    monkeypatch.setattr(queue_depths, "_LOOK_SECONDS", 0.01)
    client = Client([Message(1)])
    queues = _queues(client)
    await queues.depths()
    client.receivers[0].hangs = True
    [depth] = await queues.depths()
    assert (depth.waiting, depth.dead is None) == (None, False)


class Queue:
    """A client and receiver of one queue, which holds the messages of some numbers."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = sorted(numbers)
        self.state = ServiceBusMessageState.ACTIVE
        self.peeks = self.opened = self.closed = 0
        self.failure: Exception | None = None
        self.hangs = False

    def get_queue_receiver(self, queue: str, *, prefetch_count: int) -> Queue:
        """Open a receiver."""
        assert (queue, prefetch_count) == ("orders", 0)
        self.opened += 1
        return self

    async def peek_messages(self, most: int, *, sequence_number: int) -> list[Message]:
        """Give messages from a number on."""
        self.peeks += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        return [Message(each, self.state) for each in self.numbers if each >= sequence_number][:most]

    async def close(self) -> None:
        """Close."""
        self.closed += 1


def _line(queue: Queue) -> PeekedLine:
    return PeekedLine(lambda: cast("ServiceBusClient", queue), "orders")


@pytest.mark.parametrize("there", [20, 21, 40, 1_000, 54_321])
async def test_line_is_counted_nearly_right_by_few_peeks(there: int) -> None:
    """The count may be an eighth too small, and is never too large."""
    queue = Queue(range(7, 7 + there))
    line = await _line(queue).look()
    assert there * 0.85 <= line.count <= there
    assert queue.peeks <= 20


async def test_age_is_that_of_the_twentieth() -> None:
    """Those before it may be tried again and again, while others pass them."""
    assert (await _line(Queue(range(1, 100))).look()).since == START + timedelta(minutes=20)
    stuck = [*range(1, 20), *range(5_000, 5_100)]
    assert (await _line(Queue(stuck)).look()).since == START + timedelta(minutes=5_000)


@pytest.mark.parametrize("stuck", [[1], [1, 5_000], [*range(1, 200_000, 997)]])
@pytest.mark.parametrize("there", [5, 40, 30_000])
async def test_numbers_that_have_passed_a_stuck_message_do_not_wait(stuck: list[int], there: int) -> None:
    """One that was put back for an hour must not close the intake: the numbers run on meanwhile."""
    queue = Queue([*stuck, *range(300_000, 300_000 + there)])
    line = await _line(queue).look()
    assert 0.7 * there - queue_depths._STUCK_MESSAGES <= line.count <= there + len(stuck)
    assert queue.peeks <= 40


@pytest.mark.parametrize(("there", "expected"), [(0, Line(0, None)), (1, Line(1, None)), (19, Line(1, None))])
async def test_few_messages_are_no_line(there: int, expected: Line) -> None:
    """Nothing waits for long because of them."""
    assert await _line(Queue(range(3, 3 + there))).look() == expected


async def test_messages_of_another_partition_are_not_counted_as_a_line_between() -> None:
    """Their numbers begin elsewhere, far away."""
    numbers = [*range(1, 51), *range(2**48, 2**48 + 50)]
    assert (await _line(Queue(numbers)).look()).count <= 50


async def test_scheduled_messages_wait_for_a_time_of_their_own() -> None:
    """They count, but make nothing old."""
    queue = Queue(range(1, 101))
    queue.state = ServiceBusMessageState.SCHEDULED
    line = await _line(queue).look()
    assert (line.since, line.count > 80) == (None, True)


@pytest.mark.parametrize("failure", [ServiceBusConnectionError(message="gone"), ValueError("closed"), None])
async def test_line_that_can_not_be_seen_is_unknown(
    failure: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that hangs; the next look begins with a new connection."""
    monkeypatch.setattr(queue_depths, "_LINE_SECONDS", 0.05)
    queue = Queue([1])
    queue.failure, queue.hangs = failure, failure is None
    line = _line(queue)
    with pytest.raises(TransientError, match="queue orders"):
        await line.look()
    queue.failure, queue.hangs = None, False
    assert (await line.look(), queue.opened, queue.closed) == (Line(1, None), 2, 1)
    await line.look()
    assert queue.opened == 2
