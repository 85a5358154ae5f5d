"""Queues are looked into: counted up to a limit, and unknown where they can't be seen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import pytest
from azure.servicebus import ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusConnectionError

from functions.bus import queue_depths
from functions.bus.queue_depths import PeekedQueues
from functions.pattern.ports import Pile, QueueDepth
from tests.fakes.clock import START
from tests.unit.bus.peeked import Message

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
