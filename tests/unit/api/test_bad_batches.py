"""What is no batch as a whole is one problem document, and nothing of it is taken."""

from __future__ import annotations

import pytest

from tests.unit.api.conftest import Api
from tests.unit.api.samples import ORDER, problem, wrong_fields

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


@pytest.mark.parametrize("body", [b"{", b'{"orders": [', b"[" * 10_000], ids=["cut", "cut later", "deep"])
async def test_what_is_not_json_is_400(api: Api, body: bytes) -> None:
    """However it is broken."""
    problem(await api.client.post(BATCH, body), 400)


async def test_a_batch_of_1_mib_is_taken_and_more_is_413(api: Api) -> None:
    """The limit itself is allowed."""
    one = b'{"orders":[{"customer":"C","currency":"EUR","items":[{"sku":"T","quantity":1,"unit_price":1}]}]}'
    assert (await api.client.post(BATCH, one.ljust(MOST_BYTES))).status == 200
    problem(await api.client.post(BATCH, one.ljust(MOST_BYTES + 1)), 413)


async def test_only_batches_may_be_larger(api: Api) -> None:
    """An order that a caller has named "batch" is an order like any other."""
    problem(await api.client.put(BATCH, b" " * (48 * 1024 + 1)), 413)
    assert (await api.client.put(BATCH, ORDER)).status == 202


async def test_another_content_type_is_415(api: Api) -> None:
    """As for a single order."""
    problem(await api.client.send("POST", BATCH, {"orders": [ORDER]}, content_type="text/plain"), 415)


async def test_a_resource_that_is_not_served_takes_no_batches(api: Api) -> None:
    """404, and the body is not even read beyond the limit of single orders."""
    problem(await api.client.post("/api/journeys/batch", {"orders": [ORDER]}), 404)
    problem(await api.client.post("/api/journeys/batch", b" " * (48 * 1024 + 1)), 413)
