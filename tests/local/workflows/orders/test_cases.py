"""The order that the demo sends is accepted by the workflow, and takes the step that the demo expects."""

from __future__ import annotations

from functions.workflows.orders.definition import ORDERS
from functions.workflows.orders.models import OrderPayload
from local.callers.cases import Case
from local.callers.client import SAMPLE_ORDER


def test_the_sample_order_is_accepted_and_takes_the_expected_step() -> None:
    """With all fields that it has. A step that is renamed fails here, before any demo."""
    OrderPayload.model_validate(SAMPLE_ORDER)
    assert Case.ORDER.resource == ORDERS.resource
    assert Case.ORDER.expectation.steps.keys() == ORDERS.steps.keys()
