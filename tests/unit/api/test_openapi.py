"""The OpenAPI document says how batches are sent."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from functions.api.models import InBatch
from functions.api.pages import api_document
from tests.fakes.workflows import DIAMOND
from tests.unit.api.conftest import Api


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    """Give the document of the callers' application."""
    return api_document("Test", api.application)


def test_a_batchs_orders_are_described(document: dict[str, Any]) -> None:
    """By their model, although each is checked by itself."""
    orders = document["components"]["schemas"]["OrderPayloadBatch"]["properties"]["orders"]
    assert (orders["minItems"], orders["maxItems"]) == (1, 500)
    fields = orders["items"]["properties"]
    assert fields.keys() == {"id", "reply_to", "correlation_id", "customer", "currency", "items"}


def test_the_batchs_example_can_be_sent(document: dict[str, Any]) -> None:
    """One of its orders has an id."""
    [example] = document["components"]["schemas"]["OrderPayloadBatch"]["examples"]
    named, unnamed = (InBatch.model_validate(order) for order in example["orders"])
    assert (named.id, unnamed.id) == ("my-id-1", None)


def test_callers_read_their_own_noun(api: Api) -> None:
    """Whoever books reads of bookings, and nothing of orders."""
    bookings = replace(DIAMOND, name="booking", resource="bookings", noun="")
    document = api_document("Test", api.application_of(bookings))
    routes = {
        f"{method} {path}": each for path, of in document["paths"].items() for method, each in of.items()
    }
    assert routes["post /api/bookings"]["summary"] == "Submit a new booking, which is given an id"
    assert document["components"]["schemas"]["ParcelBatch"]["required"] == ["bookings"]
    assert "order" not in re.sub("in the batch's order", "", json.dumps(document))
