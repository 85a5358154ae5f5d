"""The deliveries that the demo tries are what the workflow takes, and take the steps that it expects."""

from __future__ import annotations

import pytest

from functions.workflow import Results
from functions.workflows.deliveries.definition import DELIVERIES, crosses_service_area
from functions.workflows.deliveries.models import Delivery
from local.callers.cases import SUSPENDED_ACCOUNT, Case, Submission
from local.callers.client import SAMPLE_DELIVERY

_NO_RESULTS = Results({}, "transport")


def _delivery(case: Case) -> Delivery:
    body = Submission("demo-1", case).in_batch(reply_to=None)
    return Delivery.model_validate({name: value for name, value in body.items() if name != "id"})


def test_each_case_has_the_result_of_its_name() -> None:
    """By the workflow's own rule, and by the account. The sample delivery needs no transport."""
    assert not crosses_service_area(Delivery.model_validate(SAMPLE_DELIVERY), _NO_RESULTS)
    assert not crosses_service_area(_delivery(Case.NEAR), _NO_RESULTS)
    assert crosses_service_area(_delivery(Case.FAR), _NO_RESULTS)
    assert _delivery(Case.SUSPENDED).account == SUSPENDED_ACCOUNT
    assert _delivery(Case.NO_DRONE).account != SUSPENDED_ACCOUNT


@pytest.mark.parametrize("case", [case for case in Case if case is not Case.ORDER])
def test_expected_steps_are_those_of_the_workflow(case: Case) -> None:
    """A step that is renamed fails here, before any demo."""
    assert case.resource == DELIVERIES.resource
    assert case.expectation.steps.keys() <= DELIVERIES.steps.keys()
