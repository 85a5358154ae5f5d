"""An order's whole path through the platform, and what its tables contain afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from local.platform import Platform
from tests.e2e.caller import NEEDS_ORDERS, ORDER, PATIENCE, Caller, rows, running

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """Run one platform for all tests here."""
    async with running(tmp_path_factory.mktemp("platform")) as platform:
        yield platform


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(platform: Platform) -> AsyncIterator[Caller]:
    """Call it."""
    async with Caller.of(platform) as caller:
        yield caller


async def test_order_is_accepted_and_processed(caller: Caller) -> None:
    """202 with `Location`, where a GET soon returns `Processed`, with the step's times."""
    async with caller.session.post("/api/orders", json=ORDER) as answer:
        assert answer.status == HTTPStatus.ACCEPTED
        location = answer.headers["Location"]
    order = await caller.until_state(location.rpartition("/")[2], "Processed")
    step = order["steps"][0]
    assert (step["name"], step["state"]) == ("payment", "Completed")
    assert order["submitted_at"] < step["started_at"] < step["finished_at"] <= order["finished_at"]


async def test_same_order_again_gets_the_same_answer(caller: Caller, platform: Platform) -> None:
    """A caller that retries gets the same response, and pays once."""
    answers = []
    for _ in range(3):
        async with caller.session.put("/api/orders/again", json=ORDER) as answer:
            answers.append((answer.status, answer.headers["Location"], await answer.json()))
        await caller.until_state("again", "Processed")
    assert answers == [answers[0]] * 3
    assert len(rows(platform, "Payments", "PartitionKey eq 'again'")) == 1


async def test_other_order_under_a_known_id_conflicts(caller: Caller) -> None:
    """409 with a problem document; the first order is unchanged."""
    assert await caller.put("taken") == HTTPStatus.ACCEPTED
    await caller.until_state("taken", "Processed")
    async with caller.session.put("/api/orders/taken", json=ORDER | {"customer": "somebody else"}) as answer:
        assert answer.status == HTTPStatus.CONFLICT
        assert answer.content_type == "application/problem+json"


async def test_other_order_before_the_first_is_recorded_is_not_lost(
    caller: Caller, platform: Platform
) -> None:
    """The one that loses the race is recorded in `Rejected`, not dropped as a duplicate."""
    await _send(platform, *(_submission("race", customer) for customer in ("C-1", "C-2")))
    await caller.until_state("race", "Processed")
    reasons = await _until_rejected(platform, count=1, having="race")
    assert reasons == ["other content is known as race"]


async def test_poison_message_is_rejected_and_others_are_processed(
    caller: Caller, platform: Platform
) -> None:
    """A message that cannot be parsed is recorded with the reason; the orders in its batch are processed."""
    poison = [b"{", b"\xff\x00", b'{"schema_version": 7}', b"[]", b'"text"']
    messages = [ServiceBusMessage(body, message_id=f"poison-{number}") for number, body in enumerate(poison)]
    await _send(platform, *messages)
    assert await caller.put("after-poison") == HTTPStatus.ACCEPTED
    await caller.until_state("after-poison", "Processed")
    await _until_rejected(platform, count=len(poison), sent_as="poison-")


async def test_bad_order_of_a_message_is_set_aside_alone(caller: Caller, platform: Platform) -> None:
    """The orders beside it are processed; an operator can send it again, or discard it."""
    orders = [b"".join(_submission(task, "C-1").body) for task in ("beside-1", "beside-2")]
    unfit = orders[0].replace(b"beside-1", b"not-paid").replace(b'"orders"', b"7")
    header = json.dumps({"schema_version": 1, "orders": 3}).encode()
    await _send(
        platform, ServiceBusMessage(b"\n".join([header, orders[0], unfit, orders[1]]), message_id="g-1")
    )
    for task in ("beside-1", "beside-2"):
        await caller.until_state(task, "Processed")
    reason = "workflow: Input should be a valid string"
    assert await _until_rejected(platform, count=1, having=reason) == [reason]
    [kept] = [row for row in rows(platform, "Rejected") if row["Reason"] == reason]
    assert (kept["MessageID"], kept["Task"], kept["Whole"]) == ("g-1.1", "not-paid", True)
    own = {"X-Requested-With": "test"}
    path = f"/api/ops/rejected/{kept['RowKey']}"
    async with caller.session.post(f"{path}/resend", json={"reason": "a test"}, headers=own) as answer:
        assert answer.status == HTTPStatus.ACCEPTED
    await _until_rejected(platform, count=2, having=reason)
    async with caller.session.post(f"{path}/discard", json={"reason": "a test"}, headers=own) as answer:
        assert answer.status == HTTPStatus.ACCEPTED


async def test_message_that_waits_for_its_workflow_carries_how_often(platform: Platform) -> None:
    """Whatever its id is, or without one: of four messages, the one that waited for a day is rejected."""
    waiting = [_submission(f"waits-{number}", "C-1", "journey") for number in range(3)]
    for message, message_id in zip(waiting, ("invoice.p55.a9", None, None), strict=True):
        message.message_id = message_id
    last = _submission("last-time", "C-1", "journey")
    last.application_properties = {"counted.put_back": 55}
    await _send(platform, *waiting, last)
    reasons = await _until_rejected(platform, count=1, having="journey")
    assert reasons == ["workflow: no 'journey' was deployed for a day"]
    assert await _until_put_back(platform, count=3) >= 1


def _submission(task: str, customer: str, workflow: str = "orders") -> ServiceBusMessage:
    """Make the message of an order, as the API sends it."""
    body = {
        "task_id": task,
        "workflow": workflow,
        "payload": ORDER | {"customer": customer},
        "submitter": "function-key",
        "submitted_at": "2026-11-22T12:00:00Z",
    }
    return ServiceBusMessage(json.dumps(body), message_id=f"{task}.{customer}")


async def _send(platform: Platform, *messages: ServiceBusMessage) -> None:
    """Put messages on the queue `submissions` in one batch, so that they arrive together."""
    connection = platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender("submissions") as sender,
    ):
        await sender.send_messages(list(messages))


async def _until_put_back(platform: Platform, *, count: int) -> int:
    """Wait until so many messages wait on `submissions`; give how often each was put back at least."""
    connection = platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver("submissions") as receiver,
        asyncio.timeout(PATIENCE),
    ):
        while len(found := await receiver.peek_messages(10, sequence_number=1)) != count:
            await asyncio.sleep(0.1)
    assert len({each.message_id for each in found}) == count
    return min(int((each.application_properties or {}).get(b"counted.put_back", 0)) for each in found)


async def _until_rejected(
    platform: Platform, *, count: int, having: str = "", sent_as: str = ""
) -> list[str]:
    """Wait until so many messages are rejected, with this in the reason and at the beginning of the id."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await asyncio.to_thread(rows, platform, "Rejected")
            found = [row for row in found if row["MessageID"].startswith(sent_as)]
            reasons = [row["Reason"] for row in found if having in row["Reason"]]
            if len(reasons) >= count:
                return reasons
            await asyncio.sleep(0.1)
