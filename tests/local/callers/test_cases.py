"""The demo's cases fit the workflows, and unexpected outcomes are described."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from functions.workflows.deliveries.definition import DELIVERIES, crosses_service_area
from functions.workflows.deliveries.models import Delivery
from functions.workflows.orders.definition import ORDERS
from local.callers.cases import SUSPENDED_ACCOUNT, Case, Submission, submissions
from local.callers.client import SAMPLE_DELIVERY, OrderState, OrderStatus, StepStatus


def _order(state: OrderState, steps: dict[str, str], last_error: str | None = None) -> OrderStatus:
    shown = tuple(StepStatus(name=name, state=of_step) for name, of_step in steps.items())
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return OrderStatus(id="a", state=state, submitted_at=at, steps=shown, last_error=last_error)


def _delivery(case: Case) -> Delivery:
    body = Submission("demo-1", case).delivery(reply_to=None)
    return Delivery.model_validate({name: value for name, value in body.items() if name != "id"})


def test_the_sample_delivery_is_valid() -> None:
    """It needs no transport."""
    assert not crosses_service_area(Delivery.model_validate(SAMPLE_DELIVERY), {})


def test_each_case_is_what_it_is_called() -> None:
    """By the workflow's own rule, and by the account that the services suspend."""
    assert not crosses_service_area(_delivery(Case.NEAR), {})
    assert crosses_service_area(_delivery(Case.FAR), {})
    assert _delivery(Case.SUSPENDED).account == SUSPENDED_ACCOUNT
    assert _delivery(Case.NO_DRONE).account != SUSPENDED_ACCOUNT


def test_a_delivery_names_its_id_and_its_reply_queue() -> None:
    """Without a queue it names none."""
    submission = Submission("demo-1", Case.NEAR)
    assert submission.delivery("notices-demo") == SAMPLE_DELIVERY | {
        "id": "demo-1",
        "reply_to": "notices-demo",
    }
    assert submission.delivery(None) == SAMPLE_DELIVERY | {"id": "demo-1"}


@pytest.mark.parametrize("case", Case)
def test_expected_steps_are_those_of_the_workflow(case: Case) -> None:
    """A step that is renamed fails here, before any demo."""
    workflow = {each.resource: each for each in (ORDERS, DELIVERIES)}[case.resource]
    assert case.expectation.steps.keys() <= {step.name for step in workflow.steps}


def test_a_few_deliveries_try_every_case() -> None:
    """And every submission has an id of its own."""
    made = submissions(2, 8)
    assert [each.case for each in made[:2]] == [Case.ORDER, Case.ORDER]
    assert {each.case for each in made[2:6]} == set(Case) - {Case.ORDER}
    assert len({each.id for each in made}) == 10


def test_an_expected_outcome_has_nothing_unmet() -> None:
    """State and steps."""
    for case in Case:
        came = _order(case.expectation.state, dict(case.expectation.steps))
        assert case.expectation.unmet(came) is None


def test_an_unexpected_outcome_is_described() -> None:
    """No status, another state, or a step in another state."""
    expectation = Case.NEAR.expectation
    steps = dict(expectation.steps)
    assert expectation.unmet(None) == "never seen"
    assert expectation.unmet(_order(OrderState.ERROR, steps, "no drone")) == "Error (no drone)"
    assert expectation.unmet(_order(OrderState.PENDING, steps)) == "Pending"
    assert (
        expectation.unmet(_order(OrderState.PROCESSED, steps | {"transport": "Completed"}))
        == "Processed, but transport Completed"
    )
    del steps["drone"]
    assert expectation.unmet(_order(OrderState.PROCESSED, steps)) == "Processed, but drone None"
