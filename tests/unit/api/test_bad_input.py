"""Each kind of bad input gets its own problem document, and reaches neither queue nor store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Json

from tests.fakes.workflows import DIAMOND
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ITEM, ORDER, problem, wrong_fields

MOST = 48 * 1024
LONGEST_ID = "x" * 64


@pytest.mark.parametrize(
    "body",
    [b"{", b"customer=C", b"\xff\xfe", b'{"customer":', b"[" * 40_000, b'{"a":' + b"9" * 5_000 + b"}"],
    ids=["cut", "form", "no UTF-8", "cut later", "deep", "a number of 5,000 digits"],
)
async def test_what_is_not_json_is_400(api: Api, body: bytes) -> None:
    """However it is broken."""
    problem(await api.client.post("/api/orders", body), 400)


async def test_missing_body_is_422(api: Api) -> None:
    """The body itself is what is missing."""
    assert wrong_fields(await api.client.post("/api/orders", b"")) == ["body"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/jsonp", "application/xml", ""])
@pytest.mark.parametrize(("method", "path"), [("POST", "/api/orders"), ("PUT", "/api/orders/a")])
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


@pytest.mark.parametrize("unfit", [{"customer": "\ud800"}, {"\ud800": 1}, {"in": [{"\ud800": 1}]}])
async def test_half_a_character_is_no_json(api: Api, unfit: dict[str, Any]) -> None:
    """A lone surrogate can't be written as UTF-8; a batch that holds one is refused as a whole."""
    problem(await api.client.post("/api/orders", ORDER | unfit), 400)
    problem(await api.client.post("/api/orders/batch", {"orders": [ORDER | unfit, ORDER]}), 400)


async def test_body_over_48_kib_is_413(api: Api) -> None:
    """One byte more is too much, whatever it holds."""
    problem(await api.client.post("/api/orders", b" " * (MOST + 1)), 413)
    problem(await api.client.put("/api/orders/a", b" " * (MOST + 1)), 413)


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


@pytest.mark.parametrize("name", ["a.b", "a|b", "a b", "ä", f"{LONGEST_ID}x", "a\n", "a'"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_id_outside_the_rule_is_422(api: Api, method: str, name: str) -> None:
    """It could not become a part of keys."""
    assert wrong_fields(await api.client.send(method, f"/api/orders/{name}", ORDER)) == ["id"]


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
