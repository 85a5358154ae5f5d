"""Orders that wait together leave as one batch without a key, each with its own trace and answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from azure.eventhub import EventData
from azure.eventhub.aio import EventHubProducerClient
from azure.eventhub.exceptions import ConnectError, EventHubError, OperationTimeoutError

from functions.bus.hub import HubSubmissions, connect_hub, namespace_of
from functions.connections import Connection
from functions.pattern.errors import SettingsError, TransientError
from functions.pattern.identity import TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.request_figures import BusFigures
from tests.fakes.workflows import submission

_KEY = "SharedAccessKeyName=R;SharedAccessKey=S2V5="


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
    assert figures.messages == 120


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
    monkeypatch.setattr("functions.bus.hub.SEND_SECONDS", 0.05)
    producer.hangs = True
    with pytest.raises(TransientError, match="TimeoutError"):
        await submissions.submit(_orders(1)[0])


@pytest.mark.parametrize("text", ["rubbish", _KEY, "Endpoint=sb://127.0.0.1:5672"])
def test_connection_string_that_cannot_work_is_named(text: str) -> None:
    """In one line, without the string."""
    with pytest.raises(SettingsError, match=r"^setting EventHubConnection is wrong") as refusal:
        connect_hub(Connection(text, None, None), "order-events")
    assert text not in str(refusal.value)


@pytest.mark.parametrize(
    ("connection", "namespace"),
    [
        (
            Connection(f"Endpoint=sb://127.0.0.1:5672;{_KEY};UseDevelopmentEmulator=true", None, None),
            "127.0.0.1",
        ),
        (
            Connection(f"Endpoint=sb://Orders.servicebus.windows.net/;{_KEY}", None, None),
            "orders.servicebus.windows.net",
        ),
        (Connection(None, "Orders.servicebus.windows.net", "id"), "orders.servicebus.windows.net"),
    ],
)
def test_namespace_is_named_as_the_host_names_it(connection: Connection, namespace: str) -> None:
    """By the host name in lower case, without a port."""
    assert namespace_of(connection) == namespace


async def test_client_is_made_at_its_first_use() -> None:
    """One client, for the hub that the settings name."""
    hub = connect_hub(
        Connection(f"Endpoint=sb://127.0.0.1:5672;{_KEY};EntityPath=Orders", None, None), "orders"
    )
    assert hub() is hub()
    assert hub().eventhub_name == "orders"
    await hub().close()
    by_identity = connect_hub(Connection(None, "orders.servicebus.windows.net", None), "orders")
    assert by_identity().eventhub_name == "orders"
    await by_identity().close()


def test_connection_string_of_another_hub_is_refused() -> None:
    """The host takes events of the hub that it names: what the API submits would be taken by nobody."""
    connection = Connection(f"Endpoint=sb://127.0.0.1:5672;{_KEY};EntityPath=other", None, None)
    with pytest.raises(
        SettingsError, match=r"EventHubConnection names the hub other, and EVENT_HUB_NAME orders"
    ):
        connect_hub(connection, "orders")
