"""The sample order is accepted by the workflow."""

from __future__ import annotations

from functions.workflows.orders.models import OrderPayload
from local.callers.client import SAMPLE_ORDER


def test_the_sample_order_is_one_that_the_application_takes() -> None:
    """With all fields that it has. Tests send it, too."""
    OrderPayload.model_validate(SAMPLE_ORDER)
