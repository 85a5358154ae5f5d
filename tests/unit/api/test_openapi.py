"""The OpenAPI document says how batches are sent and answered."""

from __future__ import annotations

from typing import Any

import pytest

from functions.api.submissions import batch_item_model
from functions.api.views import BatchAnswer
from functions.workflows.orders.definition import ORDERS
from tests.unit.api.conftest import Api


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    """Give the document of the callers' application."""
    return api.application.openapi()


def test_a_batchs_orders_are_described(document: dict[str, Any]) -> None:
    """By their model, although each is checked by itself."""
    operation = document["paths"]["/api/orders/batch"]["post"]
    orders = document["components"]["schemas"]["OrderPayloadBatch"]["properties"]["orders"]
    assert (orders["minItems"], orders["maxItems"]) == (1, 500)
    fields = orders["items"]["properties"]
    assert fields.keys() == {"id", "reply_to", "correlation_id", "customer", "currency", "items"}
    assert operation["responses"].keys() == {"200", "400", "413", "415", "422"}


def test_the_examples_are_as_they_say(document: dict[str, Any]) -> None:
    """What is shown can be sent, and is answered like that."""
    [example] = document["components"]["schemas"]["OrderPayloadBatch"]["examples"]
    named, unnamed = (batch_item_model(ORDERS).model_validate(order) for order in example["orders"])
    assert (named.id, unnamed.id) == ("order-1", None)
    [answer] = document["components"]["schemas"]["BatchAnswer"]["examples"]
    assert BatchAnswer.model_validate(answer).model_dump(exclude_none=True) == answer
