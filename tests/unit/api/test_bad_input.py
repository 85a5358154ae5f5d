"""Bad input is refused with its own problem document; in a batch, each order separately."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Json

from functions.api.acceptance import Draft, Drafts
from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.store_ports import Stored
from functions.web.callers import Caller
from tests.fakes.workflows import DIAMOND
from tests.unit.api.conftest import Api
from tests.unit.api.samples import INSIDE, ITEM, ORDER, problem, wrong_fields

MOST = 48 * 1024
LONGEST_ID = "x" * 64


async def test_missing_body_is_422(api: Api) -> None:
    """The body itself is what is missing."""
    assert wrong_fields(await api.client.post("/api/orders", b"")) == ["body"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/jsonp", "application/xml", ""])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/orders"), ("PUT", "/api/orders/a"), ("POST", "/api/orders/batch")]
)
async def test_wrong_content_type_is_415(api: Api, content_type: str | None, method: str, path: str) -> None:
    """Also when there is none."""
    problem(await api.client.send(method, path, ORDER, content_type=content_type), 415)


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_json_is_known_by_its_type_alone(api: Api, content_type: str) -> None:
    """Parameters and letter case do not matter."""
    assert (await api.client.send("POST", "/api/orders", ORDER, content_type=content_type)).status == 202


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"customer": None}, ["customer"]),
        ({"currency": "euro"}, ["currency"]),
        ({"priority": 1}, ["priority"]),
        ({"id": "mine"}, ["id"]),
        ({"items": [ITEM, ITEM | {"quantity": "2"}]}, ["items.1.quantity"]),
        ({"items": [ITEM, ITEM | {"colour": 1, "sku": ""}]}, ["items.1.sku", "items.1.colour"]),
        ({"reply_to": "elsewhere"}, ["reply_to"]),
        ({"reply_to": 7}, ["reply_to"]),
        ({"reply_to": "x" * 261}, ["reply_to"]),
        ({"correlation_id": "x" * 129}, ["correlation_id"]),
        ({"correlation_id": ""}, ["correlation_id"]),
        ({"correlation_id": "a\nb"}, ["correlation_id"]),
        ({"correlation_id": "a\x00"}, ["correlation_id"]),
        ({"correlation_id": "\x85"}, ["correlation_id"]),
        ({"items": [ITEM, ITEM | {"unit_price": "1_0"}]}, ["items.1.unit_price"]),
        ({"items": [ITEM, ITEM | {"unit_price": "\u0661"}]}, ["items.1.unit_price"]),
        ({"items": [ITEM, ITEM | {"unit_price": " 1"}]}, ["items.1.unit_price"]),
    ],
)
async def test_each_wrong_field_is_named(api: Api, change: dict[str, Any], fields: list[str]) -> None:
    """All of them at once, with the path to each."""
    assert wrong_fields(await api.client.post("/api/orders", ORDER | change)) == fields
    assert wrong_fields(await api.client.put("/api/orders/a", ORDER | change)) == fields
    assert api.submissions.messages == []


async def test_id_of_the_application_s_own_is_refused(api: Api) -> None:
    """A task that is a step of another has an id that no caller can take before it."""
    assert wrong_fields(await api.client.put("/api/orders/c-mine", ORDER)) == ["id"]
    assert wrong_fields(await api.client.put("/api/orders/a.b", ORDER)) == ["id"]
    batch = await api.client.post("/api/orders/batch", {"orders": [ORDER | {"id": "c-mine"}]})
    assert [each["status"] for each in batch.json["results"]] == [422]
    assert api.submissions.messages == []


async def test_missing_fields_are_named(api: Api) -> None:
    """Each that the order needs."""
    assert wrong_fields(await api.client.post("/api/orders", {})) == ["customer", "currency", "items"]


@pytest.mark.parametrize("body", [[], "order", 7, None])
async def test_body_that_is_no_object_is_422(api: Api, body: object) -> None:
    """The body itself is what is wrong."""
    assert wrong_fields(await api.client.post("/api/orders", body)) == ["body"]


async def test_body_of_48_kib_is_taken(api: Api) -> None:
    """The limit itself is allowed."""
    customer = b'{"customer":"C","currency":"EUR","items":[{"sku":"T","quantity":1,"unit_price":1}]}'
    assert (await api.client.post("/api/orders", customer.ljust(MOST))).status == 202


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/orders/nobodys"),
        ("GET", "/api/journeys/a"),
        ("POST", "/api/journeys"),
        ("GET", "/api/orders/a/b"),
        ("GET", "/api/orders/a/"),
        ("GET", "/"),
    ],
)
async def test_unknown_resource_or_id_is_404(api: Api, method: str, path: str) -> None:
    """One answer for all that is not there."""
    problem(await api.client.send(method, path, b"{}"), 404)


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/api/orders"), ("PATCH", "/api/orders/a"), ("GET", "/api/orders")]
)
async def test_method_that_is_not_served_is_405(api: Api, method: str, path: str) -> None:
    """The resource is there, the method is not."""
    problem(await api.client.send(method, path, b"{}"), 405)


@pytest.mark.parametrize("name", ["A-z_9", LONGEST_ID, "-", "_"])
async def test_id_within_the_rule_is_taken(api: Api, name: str) -> None:
    """All of its characters, and its whole length."""
    assert (await api.client.put(f"/api/orders/{name}", ORDER)).status == 202


class _Form(BaseModel):
    """An order with a field whose text is JSON."""

    details: Json[Any]


async def test_field_whose_text_is_no_json_is_named(api: Api) -> None:
    """The body itself is JSON."""
    client = api.serving(replace(DIAMOND, payload=_Form))
    assert wrong_fields(await client.post(f"/api/{DIAMOND.resource}", {"details": "{"})) == ["details"]


BATCH = "/api/orders/batch"
MOST_BYTES = 1024 * 1024


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ([], ["body"]),
        (None, ["body"]),
        ({}, ["orders"]),
        ({"orders": None}, ["orders"]),
        ({"orders": {"0": ORDER}}, ["orders"]),
        ({"orders": []}, ["orders"]),
        ({"orders": [ORDER] * 501}, ["orders"]),
        ({"orders": [ORDER], "atomic": True}, ["atomic"]),
    ],
)
async def test_what_is_no_list_of_1_to_500_orders_is_422(api: Api, body: object, fields: list[str]) -> None:
    """Not one of its orders is taken."""
    assert wrong_fields(await api.client.post(BATCH, body)) == fields
    assert api.submissions.messages == []


async def test_a_batch_of_1_mib_is_taken_and_more_is_413(api: Api) -> None:
    """The limit itself is allowed."""
    one = b'{"orders":[{"customer":"C","currency":"EUR","items":[{"sku":"T","quantity":1,"unit_price":1}]}]}'
    assert (await api.client.post(BATCH, one.ljust(MOST_BYTES))).status == 200
    problem(await api.client.post(BATCH, one.ljust(MOST_BYTES + 1)), 413)


async def test_only_batches_may_be_larger(api: Api) -> None:
    """An order that a caller has named "batch" is an order like any other."""
    problem(await api.client.put(BATCH, b" " * (48 * 1024 + 1)), 413)
    assert (await api.client.put(BATCH, ORDER)).status == 202


async def test_a_resource_that_is_not_served_takes_no_batches(api: Api) -> None:
    """404, and the body is not even read beyond the limit of single orders."""
    problem(await api.client.post("/api/journeys/batch", {"orders": [ORDER]}), 404)
    problem(await api.client.post("/api/journeys/batch", b" " * (48 * 1024 + 1)), 413)


async def answers(api: Api, *orders: object) -> list[dict[str, Any]]:
    """Submit a batch and give the answers, which are numbered in the batch's order."""
    answer = await api.client.post(BATCH, {"orders": orders})
    assert answer.status == 200, answer.body
    results: list[dict[str, Any]] = answer.json["results"]
    assert [each["index"] for each in results] == list(range(len(orders)))
    assert not [word for word in INSIDE if word in answer.body.decode()]
    return results


def statuses(results: list[dict[str, Any]]) -> list[int]:
    """Give the status of each order."""
    return [each["status"] for each in results]


def submitted(api: Api) -> list[str]:
    """Give the ids of the orders that were submitted."""
    return [message.task_id for message in api.submissions.messages]


async def test_each_order_gets_its_id_and_location(api: Api) -> None:
    """The caller's id, or a new one."""
    assert await answers(
        api, ORDER | {"id": "mine", "correlation_id": "c-7"}, ORDER, ORDER | {"id": None}
    ) == [
        {"index": 0, "status": 202, "id": "mine", "location": "/api/orders/mine"},
        {"index": 1, "status": 202, "id": "new-1", "location": "/api/orders/new-1"},
        {"index": 2, "status": 202, "id": "new-2", "location": "/api/orders/new-2"},
    ]
    assert submitted(api) == ["mine", "new-1", "new-2"]
    first = api.submissions.messages[0]
    assert (first.payload, first.correlation_id, first.reply_to) == (ORDER, "c-7", None)


@pytest.mark.parametrize(
    ("bad", "fields"),
    [
        (
            ORDER | {"currency": "euro", "items": [ITEM, ITEM | {"quantity": 0}]},
            ["currency", "items.1.quantity"],
        ),
        (ORDER | {"id": "a b"}, ["id"]),
        (ORDER | {"priority": 1}, ["priority"]),
        (ORDER | {"reply_to": "elsewhere"}, ["reply_to"]),
        ({}, ["customer", "currency", "items"]),
        ([], ["order"]),
        ("order", ["order"]),
        (None, ["order"]),
    ],
)
async def test_a_bad_order_does_not_lose_another(api: Api, bad: object, fields: list[str]) -> None:
    """It alone is refused, with each field that is wrong."""
    first, refused, last = await answers(api, ORDER | {"id": "a"}, bad, ORDER | {"id": "b"})
    assert statuses([first, refused, last]) == [202, 422, 202]
    assert "id" not in refused
    assert refused["problem"]["title"]
    assert [fault["field"] for fault in refused["problem"]["errors"]] == fields
    assert submitted(api) == ["a", "b"]


async def test_an_order_over_48_kib_is_refused_alone(api: Api) -> None:
    """The limit of one order is the same in a batch."""
    wide = ORDER | {"customer": "x" * 48 * 1024}
    narrow = ORDER | {"customer": "ä" * 24_000}  # it is too long, but its bytes are within the limit
    assert statuses(await answers(api, wide, ORDER, narrow)) == [413, 202, 422]


async def test_the_same_id_with_the_same_content_is_one_order(api: Api) -> None:
    """It is submitted once, and answered alike."""
    twice = [ORDER | {"id": "mine"}, dict(reversed(ORDER.items())) | {"id": "mine"}]
    first, second = await answers(api, *twice)
    assert first | {"index": 1} == second
    assert submitted(api) == ["mine"]


async def test_the_same_id_with_other_content_is_a_conflict(api: Api) -> None:
    """The first order of the batch stands."""
    results = await answers(api, ORDER | {"id": "mine"}, ORDER | {"id": "mine", "currency": "USD"})
    assert statuses(results) == [202, 409]
    assert results[1]["id"] == "mine"
    assert [message.payload["currency"] for message in api.submissions.messages] == ["EUR"]


async def test_a_bad_order_does_not_take_an_id(api: Api) -> None:
    """The next one under that id is the first that counts."""
    results = await answers(api, ORDER | {"id": "mine", "currency": 1}, ORDER | {"id": "mine"})
    assert statuses(results) == [422, 202]


async def test_orders_that_are_recorded_are_known_again(api: Api) -> None:
    """Equal content is accepted and not submitted again; other content is a conflict, in any order."""
    await answers(api, ORDER | {"id": "a"}, ORDER | {"id": "b"})
    api.record_submitted()
    other = ORDER | {"currency": "USD"}
    results = await answers(
        api, ORDER | {"id": "a"}, other | {"id": "b"}, ORDER | {"id": "b"}, ORDER | {"id": "c"}
    )
    assert statuses(results) == [202, 409, 202, 202]
    assert submitted(api) == ["a", "b", "c"]


async def test_orders_the_queue_did_not_take_can_be_repeated(api: Api) -> None:
    """They get 503 and their ids, also new ones; repeated under them, they are no second orders."""
    api.submissions.failure = TransientError("Service Bus: OperationTimeoutError")
    api.submissions.fails_for = {TaskId("b"), TaskId("new-1")}
    orders = [ORDER | {"id": "a"}, ORDER | {"id": "b"}, ORDER]
    results = await answers(api, *orders)
    assert statuses(results) == [202, 503, 503]
    assert [each["id"] for each in results] == ["a", "b", "new-1"]
    api.submissions.failure = None
    again = [order | {"id": each["id"]} for order, each in zip(orders, results, strict=True)]
    assert statuses(await answers(api, *again)) == [202, 202, 202]
    assert set(submitted(api)) == {"a", "b", "new-1"}


async def test_a_store_that_does_not_answer_is_503_for_ids_that_callers_gave(api: Api) -> None:
    """Whether they are known can't be told; a new id needs no look-up."""
    api.store.failure = TransientError("Table Storage: ServiceRequestError")
    assert statuses(await answers(api, ORDER | {"id": "a"}, ORDER)) == [503, 202]


async def test_an_unexpected_failure_is_a_500_for_its_order_alone(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """With a reference by which the log is found."""
    api.submissions.failure, api.submissions.fails_for = RuntimeError("secret"), {TaskId("a")}
    failed, taken = await answers(api, ORDER | {"id": "a"}, ORDER | {"id": "b"})
    assert statuses([failed, taken]) == [500, 202]
    assert "secret" not in str(failed)
    assert failed["problem"]["detail"].rstrip(".").rpartition(" ")[2] in caplog.text


async def test_look_ups_are_made_side_by_side_within_a_bound(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 ids are not 500 waits, nor 500 requests at one moment."""
    running, most = 0, 0

    async def load(_task: TaskId) -> Stored | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return None

    monkeypatch.setattr(api.store, "load", load)
    results = await answers(api, *(ORDER | {"id": f"o-{number}"} for number in range(500)))
    assert set(statuses(results)) == {202}
    assert most == 100
    assert len(submitted(api)) == 500


async def test_short_request_waits_for_one_turn_of_a_batch(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although its tasks take several rounds of the event loop."""
    checked, check = list[object](), Drafts.of_batch

    def counted(drafts: Drafts, workflow: Workflow, sent: object, caller: Caller) -> Draft:
        checked.append(sent)
        return check(drafts, workflow, sent, caller)

    monkeypatch.setattr(Drafts, "of_batch", counted)
    monkeypatch.setattr("functions.api.batch._TURN_SECONDS", 0)
    batch = asyncio.create_task(answers(api, *[ORDER] * 20))
    while not checked:
        await asyncio.sleep(0)
    assert (await api.client.get("/api/health")).status == 200
    assert len(checked) <= 2
    await batch


async def test_an_answer_names_only_the_first_faults(api: Api) -> None:
    """A body full of faults makes no answer many times its size; of a batch's orders, each has fewer."""
    bad = ORDER | {f"x{number}": 1 for number in range(4_000)}
    [refused] = await answers(api, bad)
    assert len(refused["problem"]["errors"]) == 10
    assert len(wrong_fields(await api.client.put("/api/orders/mine", bad))) == 50
