"""The demo tries every case, and unexpected outcomes are described."""

from __future__ import annotations

from datetime import UTC, datetime

from local.callers.cases import Case, Submission, submissions
from local.callers.client import SAMPLE_DELIVERY, OrderState, OrderStatus, StepStatus


def _order(state: OrderState, steps: dict[str, str], last_error: str | None = None) -> OrderStatus:
    shown = tuple(StepStatus(name=name, state=of_step) for name, of_step in steps.items())
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return OrderStatus(id="a", state=state, submitted_at=at, steps=shown, last_error=last_error)


def test_a_delivery_names_its_id_and_its_reply_queue() -> None:
    """Without a queue it names none."""
    submission = Submission("demo-1", Case.NEAR)
    assert submission.in_batch("notices-demo") == SAMPLE_DELIVERY | {
        "id": "demo-1",
        "reply_to": "notices-demo",
    }
    assert submission.in_batch(None) == SAMPLE_DELIVERY | {"id": "demo-1"}


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
