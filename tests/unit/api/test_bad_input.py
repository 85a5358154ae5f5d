"""Invalid input is rejected with a problem document; in a batch, each order separately."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Json

from functions.api import batch_routes
from functions.api.batch_routes import take_batch
from functions.http.access import Caller, Role
from functions.messaging.senders import SendError
from tests.fakes.simulated_table import TableFault
from tests.unit.api.scene import INSIDE, ITEM, ORDER, ORDERS, Api, parcels, problem, wrong_fields

MOST = 48 * 1024
SMALL = b'{"customer":"C","currency":"EUR","items":[{"sku":"T","quantity":1,"unit_price":"1"}]}'
BATCH = "/api/orders/batch"


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"customer": None}, ["customer"]),
        ({"currency": "euro"}, ["currency"]),
        ({"priority": 1}, ["priority"]),
        ({"id": "mine"}, ["id"]),
        ({"items": [ITEM, ITEM | {"quantity": "2"}]}, ["items.1.quantity"]),
        ({"items": [ITEM, ITEM | {"colour": 1, "sku": ""}]}, ["items.1.sku", "items.1.colour"]),
        ({"reply_to": "elsewhere", "currency": ""}, ["currency", "reply_to"]),
        ({"reply_to": "scheduler-requests"}, ["reply_to"]),
        ({"reply_to": 7}, ["reply_to"]),
        ({"reply_to": "x" * 261}, ["reply_to"]),
        ({"correlation_id": "x" * 129}, ["correlation_id"]),
        ({"correlation_id": ""}, ["correlation_id"]),
        ({"correlation_id": "a\nb"}, ["correlation_id"]),
        ({"correlation_id": "\x85"}, ["correlation_id"]),
    ],
)
async def test_each_wrong_field_is_named(api: Api, change: dict[str, Any], fields: list[str]) -> None:
    """All of them in one answer, each with its path."""
    assert wrong_fields(await api.client.post("/api/orders", ORDER | change)) == fields
    assert wrong_fields(await api.client.put("/api/orders/a", ORDER | change)) == fields
    assert api.submitted == []


class _Form(BaseModel):
    details: Json[Any]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["customer", "currency", "items"]),
        *((body, ["body"]) for body in (b"", list[Any](), "order", 7, None)),
    ],
)
async def test_body_without_the_fields_is_422(api: Api, body: object, fields: list[str]) -> None:
    """Each required field is named, or the body itself if it is no object; so is a text that is no JSON."""
    assert wrong_fields(await api.client.post("/api/orders", body)) == fields
    client = api.serving(parcels(payload=_Form))
    assert wrong_fields(await client.post("/api/parcels", {"details": "{"})) == ["details"]


async def test_reserved_and_invalid_ids_are_422(api: Api) -> None:
    """Ids of child tasks are reserved."""
    for name in ("c-mine", "a.b", "x" * 65):
        assert wrong_fields(await api.client.put(f"/api/orders/{name}", ORDER)) == ["id"]
        [answer] = await answers(api, ORDER | {"id": name})
        assert (answer["status"], answer["problem"]["errors"][0]["field"]) == (422, "id")
    assert api.submitted == []
    for name in ("A-z_9", "x" * 64, "-", "_", "batch"):
        assert (await api.client.put(f"/api/orders/{name}", ORDER)).status == 202


@pytest.mark.parametrize("path", ["/api/orders", "/api/orders/a", BATCH])
async def test_wrong_content_type_is_415(api: Api, path: str) -> None:
    """Without a content type, too; parameters and case do not matter."""
    method = "PUT" if path.endswith("/a") else "POST"
    for content_type in (None, "text/plain", "application/jsonp", ""):
        problem(await api.client.send(method, path, ORDER, content_type=content_type), 415)
    for content_type in ("application/json; charset=utf-8", "Application/JSON"):
        answer = await api.client.send(method, path, ORDER, content_type=content_type)
        assert answer.status == (422 if path == BATCH else 202)


async def test_bodies_are_bounded(api: Api) -> None:
    """48 KiB an order, 1 MiB a batch of a known resource. The limit itself is allowed."""
    assert (await api.client.post("/api/orders", SMALL.ljust(MOST))).status == 202
    problem(await api.client.post("/api/orders", SMALL.ljust(MOST + 1)), 413)
    batch = b'{"orders":[' + SMALL + b"]}"
    assert (await api.client.post(BATCH, batch.ljust(1024 * 1024))).status == 200
    problem(await api.client.post(BATCH, batch.ljust(1024 * 1024 + 1)), 413)
    problem(await api.client.put(BATCH, b" " * (MOST + 1)), 413)
    problem(await api.client.post("/api/journeys/batch", b" " * (MOST + 1)), 413)
    wide, narrow = ORDER | {"customer": "x" * MOST}, ORDER | {"customer": "ä" * 24_000}
    assert statuses(await answers(api, wide, ORDER, narrow)) == [413, 202, 422]


async def test_unknown_path_is_404_and_unknown_method_405(api: Api) -> None:
    """As problem documents."""
    for path in ("/api/orders/nobodys", "/api/orders/a/b", "/api/orders/a/", "/"):
        problem(await api.client.get(path), 404)
    problem(await api.client.post("/api/journeys", {}), 404)
    for method, path in (("DELETE", "/api/orders"), ("PATCH", "/api/orders/a"), ("GET", "/api/orders")):
        problem(await api.client.send(method, path, b"{}"), 405)


# Batches


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ([], ["body"]),
        (None, ["body"]),
        ({}, ["orders"]),
        ({"orders": {"0": ORDER}}, ["orders"]),
        ({"orders": []}, ["orders"]),
        ({"orders": [ORDER] * 501}, ["orders"]),
        ({"orders": [ORDER], "atomic": True}, ["atomic"]),
        ({"orders": [ORDER]} | dict.fromkeys(map(str, range(1_000))), ["body"]),
    ],
)
async def test_batch_that_is_no_list_of_1_to_500_orders_is_422(
    api: Api, body: object, fields: list[str]
) -> None:
    """None of its orders is submitted."""
    assert wrong_fields(await api.client.post(BATCH, body)) == fields
    assert api.submitted == []


async def answers(api: Api, *orders: object) -> list[dict[str, Any]]:
    """Submit a batch and return the answers, which are in the order of the batch."""
    answer = await api.client.post(BATCH, {"orders": orders})
    assert answer.status == 200, answer.body
    results: list[dict[str, Any]] = answer.json["results"]
    assert [each["index"] for each in results] == list(range(len(orders)))
    assert not [word for word in INSIDE if word in answer.body.decode()]
    return results


def statuses(results: list[dict[str, Any]]) -> list[int]:
    """Return the status of each order."""
    return [each["status"] for each in results]


def submitted(api: Api) -> list[str]:
    """Return the ids of the submitted orders."""
    return [message.task_id for message in api.submitted]


async def test_each_order_of_a_batch_gets_its_id_and_location(api: Api) -> None:
    """An id of the caller, or a new one."""
    assert await answers(
        api, ORDER | {"id": "mine", "correlation_id": "c-7"}, ORDER, ORDER | {"id": None}
    ) == [
        {"index": 0, "status": 202, "id": "mine", "location": "/api/orders/mine"},
        {"index": 1, "status": 202, "id": "new-1", "location": "/api/orders/new-1"},
        {"index": 2, "status": 202, "id": "new-2", "location": "/api/orders/new-2"},
    ]
    assert submitted(api) == ["mine", "new-1", "new-2"]
    assert (api.submitted[0].payload, api.submitted[0].correlation_id) == (ORDER, "c-7")


@pytest.mark.parametrize(
    ("bad", "fields"),
    [
        (
            ORDER | {"currency": "euro", "items": [ITEM, ITEM | {"quantity": 0}]},
            ["currency", "items.1.quantity"],
        ),
        (ORDER | {"id": "a b"}, ["id"]),
        (ORDER | {"id": []}, ["id"]),
        (ORDER | {"priority": 1}, ["priority"]),
        (ORDER | {"reply_to": "submissions"}, ["reply_to"]),
        ([], ["order"]),
        (None, ["order"]),
    ],
)
async def test_a_bad_order_affects_no_other(api: Api, bad: object, fields: list[str]) -> None:
    """Only this order is rejected, with each wrong field."""
    first, rejected, last = await answers(api, ORDER | {"id": "a"}, bad, ORDER | {"id": "b"})
    assert statuses([first, rejected, last]) == [202, 422, 202]
    assert "id" not in rejected
    assert [fault["field"] for fault in rejected["problem"]["errors"]] == fields
    assert submitted(api) == ["a", "b"]


async def test_an_id_twice_in_a_batch_is_one_order_or_a_conflict(api: Api) -> None:
    """The first valid order counts."""
    mine = ORDER | {"id": "mine"}
    results = await answers(
        api, mine | {"currency": 1}, mine, dict(reversed(mine.items())), mine | {"currency": "USD"}
    )
    assert statuses(results) == [422, 202, 202, 409]
    assert results[1] | {"index": 2} == results[2]
    assert results[3]["id"] == "mine"
    assert [message.payload["currency"] for message in api.submitted] == ["EUR"]


@pytest.mark.parametrize("failure", [SendError("no answer"), asyncio.CancelledError()])
async def test_orders_that_were_not_sent_can_be_repeated(api: Api, failure: BaseException) -> None:
    """They get 503 with their ids, new ones as well."""
    api.failure, api.fails_for = failure, {"b", "new-1"}
    orders = [ORDER | {"id": "a"}, ORDER | {"id": "b"}, ORDER]
    results = await answers(api, *orders)
    assert statuses(results) == [202, 503, 503]
    assert [each["id"] for each in results] == ["a", "b", "new-1"]
    api.failure = None
    again = [order | {"id": each["id"]} for order, each in zip(orders, results, strict=True)]
    assert statuses(await answers(api, *again)) == [202, 202, 202]
    assert set(submitted(api)) == {"a", "b", "new-1"}


async def test_table_that_does_not_answer_is_503_for_ids_of_callers(api: Api) -> None:
    """A new id is not reserved."""
    api.table.fault = lambda: TableFault.NOT_SENT
    assert statuses(await answers(api, ORDER | {"id": "a"}, ORDER)) == [503, 202]


async def test_unexpected_failure_of_one_order_is_a_500_for_it_alone(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the reference."""
    api.failure, api.fails_for = RuntimeError("secret"), {"a"}
    failed, accepted = await answers(api, ORDER | {"id": "a"}, ORDER | {"id": "b"})
    assert statuses([failed, accepted]) == [500, 202]
    assert "secret" not in str(failed)
    assert failed["problem"]["detail"].rstrip(".").rpartition(" ")[2] in caplog.text


async def test_ids_of_a_batch_are_reserved_in_one_transaction_for_each_shard(api: Api) -> None:
    """It has at most 100 rows. One row is read: a batch whose first id is known is read as a whole."""
    results = await answers(api, *(ORDER | {"id": f"o-{number}"} for number in range(180)))
    assert (set(statuses(results)), len(api.submitted)) == ({202}, 180)
    assert (len(api.table.transactions), api.table.reads) == (2, 1)
    assert {each.reservation for each in api.submitted} == {
        row["odata.etag"] for row in api.table.rows.values()
    }


@pytest.mark.parametrize(("seconds", "fewest", "most"), [(0, 100, 10_000), (60, 0, 50)])
async def test_other_requests_are_served_between_the_orders_of_a_batch(
    monkeypatch: pytest.MonkeyPatch, seconds: float, fewest: int, most: int
) -> None:
    """After each turn of validation; orders that are validated quickly share one."""
    monkeypatch.setattr(batch_routes, "_TURN_SECONDS", seconds)
    bad = [ORDER | {"currency": "euro"}] * 100
    batch = asyncio.create_task(take_batch(Api().orders, ORDERS, bad, Caller("anna", frozenset(Role))))
    turns = 0
    while not batch.done():
        await asyncio.sleep(0)
        turns += 1
    assert {answer.status for answer in await batch} == {422}
    assert fewest <= turns <= most


async def test_an_answer_names_the_first_faults_only(api: Api) -> None:
    """50 of a single order, 10 of each order of a batch; thousands are counted."""
    bad = ORDER | {f"x{number}": 1 for number in range(4_000)}
    [rejected] = await answers(api, bad)
    assert len(rejected["problem"]["errors"]) == 10
    assert len(wrong_fields(await api.client.put("/api/orders/mine", bad))) == 50
    [rejected] = await answers(api, ORDER | {"items": [{}] * 3_900})
    assert rejected["problem"]["errors"] == [{"field": "order", "reason": "wrong in 11701 places"}]
