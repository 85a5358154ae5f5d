"""An id is reserved before its order is sent: one of several orders gets it, and its state is shown."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from functions.messaging.reservations import reject_reservation
from functions.messaging.senders import SendError
from tests.fakes.guards import ANNA, BERT, SIGN_IN, reader, submitter
from tests.fakes.simulated_table import TableFault
from tests.unit.api.samples import ORDER, problem
from tests.unit.api.scene import Api

MINE, USD = "/api/orders/mine", ORDER | {"currency": "USD"}
TAKEN = "urn:problem-type:id-taken"


async def reject(api: Api) -> None:
    """Reject the last order that was sent."""
    await reject_reservation(api.storage, api.submitted[-1], "items: too many")


async def state(api: Api) -> str:
    """Return the state of the order."""
    return str((await api.client.get(MINE)).json["state"])


@pytest.mark.parametrize("fault", [None, TableFault.REPEATED])
@pytest.mark.parametrize("is_rejected", [False, True])
async def test_of_different_orders_at_one_moment_one_is_accepted(
    api: Api, fault: TableFault | None, *, is_rejected: bool
) -> None:
    """Under a new id, or that of a rejected order. The others are 409, and only the accepted one is sent."""
    if is_rejected:
        await api.client.put(MINE, ORDER)
        await reject(api)
        api.submitted.clear()
    orders = [ORDER | {"customer": f"C-{number}", "correlation_id": f"c-{number}"} for number in range(6)]
    api.table.fail_next(*[None] * is_rejected, fault)
    answers = await asyncio.gather(*(api.client.put(MINE, order) for order in orders))
    assert sorted(each.status for each in answers) == [202, 409, 409, 409, 409, 409]
    assert {problem(each, 409)["type"] for each in answers if each.status == 409} == {TAKEN}
    [message] = api.submitted
    assert answers[int(message.payload["customer"][2:])].status == 202
    assert (await api.client.get(MINE)).json["correlation_id"] == message.correlation_id


async def test_of_two_callers_with_one_order_one_gets_the_id() -> None:
    """Also after its task is recorded."""
    api = Api(guard=SIGN_IN)
    clients = [api.serving(headers=submitter(name)) for name in (ANNA, BERT)]
    answers = await asyncio.gather(*(client.put(MINE, ORDER) for client in clients))
    assert sorted(each.status for each in answers) == [202, 409]
    await api.admit_submitted()
    assert [(await client.put(MINE, ORDER)).status for client in clients] == [each.status for each in answers]


async def test_order_without_a_task_is_accepted_or_rejected() -> None:
    """Its caller and readers see it on its resource. The id of a rejected one is free for any order."""
    api = Api(guard=SIGN_IN)
    headers = (submitter(ANNA), reader(BERT), submitter(BERT))
    anna, robin, bert = (api.serving(headers=each) for each in headers)
    assert (await anna.put(MINE, ORDER | {"correlation_id": "c-7"})).status == 202
    shown = (await anna.get(MINE)).json
    assert shown == (await robin.get(MINE)).json
    assert shown == {
        **dict.fromkeys(("finished_at", "last_error", "output")),
        "id": "mine",
        "workflow": "orders",
        "state": "Accepted",
        "steps": [],
        "correlation_id": "c-7",
        "submitted_at": "2026-11-21T10:00:00.123456Z",
    }
    problem(await bert.get(MINE), 404)
    problem(await anna.get("/api/parcels/mine"), 404)
    problem(await anna.delete(MINE), 404)
    await reject(api)
    assert (await anna.get(MINE)).json == shown | {"state": "Rejected", "last_error": "items: too many"}
    assert (await bert.put(MINE, USD)).status == 202
    assert (await bert.get(MINE)).json["state"] == "Accepted"
    problem(await anna.put(MINE, ORDER), 409)


async def test_repeated_order_is_sent_again_until_it_has_a_task(api: Api) -> None:
    """With the same reservation, because the first message may be lost or not sent."""
    api.failure = SendError("no link")
    problem(await api.client.put(MINE, ORDER), 503)
    api.failure = None
    problem(await api.client.put(MINE, USD), 409)
    for _ in range(2):
        assert (await api.client.put(MINE, ORDER)).status == 202
    assert len({each.reservation for each in api.submitted}) == 1
    await api.admit_submitted()
    assert (await api.client.put(MINE, ORDER)).status == 202
    assert (len(api.submitted), await state(api)) == (2, "Pending")


async def test_reservation_whose_answer_was_lost_is_recognised(api: Api) -> None:
    """After a 503, the caller repeats its request."""
    api.table.fail_next(TableFault.NO_ANSWER)
    assert [(await api.client.put(MINE, order)).status for order in (ORDER, USD, ORDER)] == [503, 409, 202]


async def test_rejected_order_that_is_sent_again_has_another_reservation(api: Api) -> None:
    """A late rejection of the first message does not count."""
    await api.client.put(MINE, ORDER)
    await reject(api)
    await api.client.put(MINE, ORDER)
    first, second = api.submitted
    assert first.reservation != second.reservation
    await reject_reservation(api.storage, first, "late")
    assert await state(api) == "Accepted"


async def test_ids_of_a_batch_are_new_repeated_taken_or_named_twice(api: Api) -> None:
    """An order without an id needs no reservation, and an order with a task is not sent again."""
    await api.client.put("/api/orders/recorded", ORDER)
    await api.admit_submitted()
    for name in ("reserved", "taken", "rejected"):
        await api.client.put(f"/api/orders/{name}", ORDER)
    await reject(api)
    api.submitted.clear()
    batch = [ORDER | {"id": name} for name in ("new", "recorded", "reserved", "rejected", "new")]
    batch += [ORDER, *(USD | {"id": name} for name in ("new", "recorded", "taken"))]
    results = (await api.client.post("/api/orders/batch", {"orders": batch})).json["results"]
    assert [each["status"] for each in results] == [202] * 6 + [409] * 3
    assert {each["problem"]["type"] for each in results[6:]} == {TAKEN}
    sent = {each.task_id: each.reservation is not None for each in api.submitted}
    assert sent == {"new": True, "reserved": True, "rejected": True, results[5]["id"]: False}
    assert len(api.submitted) == len(sent)


async def test_batch_of_known_ids_writes_nothing_and_sends_nothing(api: Api) -> None:
    """Its orders are recorded."""
    batch = {"orders": [ORDER | {"id": f"o-{number}"} for number in range(30)]}
    await api.client.post("/api/orders/batch", batch)
    await api.admit_submitted()
    rows, transactions = dict(api.table.rows), len(api.table.transactions)
    results = (await api.client.post("/api/orders/batch", batch)).json["results"]
    assert Counter(each["status"] for each in results) == {202: 30}
    assert len(api.table.transactions) == transactions
    assert (len(api.submitted), api.table.rows) == (30, rows)


async def test_batch_accepts_no_order_under_the_id_of_another_one_before_it(api: Api) -> None:
    """The first order of a batch under an id counts. An order that is not sent is not accepted."""
    api.failure = SendError("no queue")
    assert (await api.client.put("/api/orders/mine", ORDER)).status == 503
    api.failure = None
    batch = {"orders": [USD | {"id": "mine"}, ORDER | {"id": "mine"}]}
    results = (await api.client.post("/api/orders/batch", batch)).json["results"]
    assert ([each["status"] for each in results], api.submitted) == ([409, 409], [])
