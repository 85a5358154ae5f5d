"""A reply names its step, and shows the token of its request: that tells of which item it is."""

from __future__ import annotations

import pytest

from functions.pattern.identity import StepName, start_of
from functions.pattern.late import replied_step
from functions.pattern.records import TaskRecord
from functions.pattern.states import Way
from tests.fakes.interventions import found_not_done, giving_up
from tests.fakes.tasks import SECOND, claimed, pending, started, told
from tests.fakes.workflows import each, step, workflow

FLOW = workflow(step("open"), each("send", via=Way.QUEUE, idempotent=False))
SEND = StepName("send")


def _begun_again() -> TaskRecord:
    """Begin an item once more, after an operator has found that it was not done."""
    first = started("send.1", token="first", start_id=start_of("first"))
    record = told(pending(FLOW), claimed(), first)
    record = told(record, giving_up(hold=True), found_not_done("send.1"), now=first.complete_by)
    again = started("send.1", SECOND, token="second", start_id=start_of("second"), complete_by=90)
    return told(record, claimed(SECOND), again, now=first.complete_by)


@pytest.mark.parametrize(
    ("token", "item"), [("second", "send.1"), ("first", "send.1"), ("stranger", "send.0")]
)
def test_item_is_known_by_the_token_of_any_of_its_requests(token: str, item: str) -> None:
    """Of a token that none had, it is the first: its own token then shows that the reply is not its."""
    assert replied_step(_begun_again(), SEND, token) == item


def test_token_of_another_step_tells_nothing() -> None:
    """A plain step is taken at its word, and a step that the task has not is none."""
    assert replied_step(_begun_again(), StepName("open"), "second") == "open"
    assert replied_step(_begun_again(), StepName("close"), "second") is None
