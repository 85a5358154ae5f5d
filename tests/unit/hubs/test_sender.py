"""Orders that wait together leave as one batch without a key, each with its own trace and answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from azure.eventhub import EventData
from azure.eventhub.aio import EventHubProducerClient
from azure.eventhub.exceptions import ConnectError, EventHubError, OperationTimeoutError

from functions.hubs.sender import HubSubmissions
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.request_figures import BusFigures
from tests.fakes.workflows import submission


class Producer:
    """A client that keeps what it sends."""

    def __init__(self) -> None:
        self.batches: list[list[EventData]] = []
        self.options: list[object] = []
        self.failure: Exception | None = None
        self.hangs = False

    async def send_batch(self, events: Sequence[EventData], **options: object) -> None:
        """Send a batch."""
        if self.hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.batches.append(list(events))
        self.options.append(options)


@pytest.fixture
def producer() -> Producer:
    """Make a client that has sent nothing."""
    return Producer()


@pytest.fixture
def figures() -> BusFigures:
    """Make figures that count from zero."""
    return BusFigures()


@pytest.fixture
def submissions(producer: Producer, figures: BusFigures) -> HubSubmissions:
    """Make the API's way to the hub."""
    return HubSubmissions(lambda: cast("EventHubProducerClient", producer), figures)


def _orders(count: int) -> list[SubmissionMessage]:
    return [submission(task=TaskId(f"t-{number}")) for number in range(count)]


async def test_orders_of_a_request_leave_in_one_batch(
    producer: Producer, submissions: HubSubmissions, figures: BusFigures
) -> None:
    """Each is an event by itself, without a partition or a key."""
    orders = _orders(120)
    assert await submissions.submit_all(orders) == [None] * 120
    [batch] = producer.batches
    assert [event.body_as_str() for event in batch] == [order.written.decode() for order in orders]
    assert producer.options == [{"timeout": 10}]
    assert {event.content_type for event in batch} == {"application/json"}
    assert (figures.messages, figures.batches) == (120, 1)


async def test_burst_is_spread_over_partitions(producer: Producer, submissions: HubSubmissions) -> None:
    """A batch lies in one of them, which is taken a hundred events at a time, one hundred after the other."""
    await submissions.submit_all(_orders(500))
    assert [len(batch) for batch in producer.batches] == [128] * 3 + [116]


async def test_each_order_carries_its_trace(producer: Producer, submissions: HubSubmissions) -> None:
    """As a property, where whoever takes it looks for it."""
    await submissions.submit_all(_orders(2), ["00-a-b-01", None])
    [[first, second]] = producer.batches
    assert first.properties == {"traceparent": "00-a-b-01"}
    assert not second.properties


async def test_large_orders_are_parted(producer: Producer, submissions: HubSubmissions) -> None:
    """A hub takes 1 MiB at once."""
    orders = [submission(task=TaskId(f"t-{number}")) for number in range(30)]
    large = [order.model_copy(update={"payload": {"text": "x" * 48_000}}) for order in orders]
    assert await submissions.submit_all(large) == [None] * 30
    sizes = [sum(len(event.body_as_str()) for event in batch) for batch in producer.batches]
    assert len(sizes) == 2
    assert max(sizes) < 1024 * 1024


@pytest.mark.parametrize("fault", [ConnectError("gone"), OperationTimeoutError("late"), EventHubError("no")])
async def test_fault_is_each_orders_own_answer(
    producer: Producer, submissions: HubSubmissions, fault: Exception
) -> None:
    """The caller is told to repeat it; the hub may have it all the same."""
    producer.failure = fault
    [first, second] = await submissions.submit_all(_orders(2))
    assert isinstance(first, TransientError)
    assert isinstance(second, TransientError)
    with pytest.raises(TransientError, match="Event Hubs"):
        await submissions.submit(_orders(1)[0])


async def test_hub_that_does_not_answer_is_given_up(
    producer: Producer, submissions: HubSubmissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller is not kept waiting."""
    monkeypatch.setattr("functions.hubs.sender._SEND_SECONDS", 0.05)
    producer.hangs = True
    with pytest.raises(TransientError, match="TimeoutError"):
        await submissions.submit(_orders(1)[0])
