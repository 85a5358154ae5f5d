"""A wait that can't work is refused when it is written down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.definition import Default
from functions.pattern.errors import DefinitionError
from functions.pattern.states import Expiry, Remedy, Way
from tests.fakes.clock import START
from tests.fakes.workflows import Approval, awaiting, workflow


def _defined(**fields: Any) -> str:
    with pytest.raises(DefinitionError) as refusal:
        workflow(replace(awaiting("ok"), **fields))
    return str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"agent": "ok"}, "a step by way event has no agent: leave it out"),
        ({"undo": True}, "a step by way event has no undo: leave it out"),
        ({"idempotent": False}, "a step by way event has no idempotent: leave it out"),
        ({"payload": None}, "payload must be a pydantic model class, not None"),
        ({"role": "boss"}, "role must be Submitter, Operator or a name such as Approver"),
        ({"role": "Boss of all"}, "not 'Boss of all'"),
        ({"role": "B" * 33}, "up to 31 letters, digits, dots and dashes"),
        ({"role": None}, "not None"),
        ({"role": "OPERATOR"}, "role must be written Operator, not 'OPERATOR'"),
        ({"on_expiry": "wait"}, "on_expiry must be Expiry.REFUSE or Expiry.HOLD, not 'wait'"),
        ({"on_expiry": Default({"approved": 7})}, "the default of its on_expiry does not fit (approved: "),
        ({"on_expiry": Default({"approved": "no"})}, "does not fit (approved: Input should be a valid bool"),
        (
            {"on_expiry": Default({"approved": object()})},
            "its on_expiry is no JSON (Unable to serialize",
        ),
        ({"on_expiry": Default({})}, "the default of its on_expiry does not fit (approved: Field required)"),
        ({"on_expiry": Expiry.HOLD, "on_failure": Remedy.CONTINUE}, "only a refused step has an on_failure"),
        ({"complete_within": 0}, "complete_within must be more than 0"),
        ({"via": Way.TIMER}, "until must be a function of the payload and the results, not None"),
        ({"via": Way.TIMER, "until": lambda *_: START}, "a step by way timer has no complete_within"),
        ({"via": Way.ACTIVITY, "request": lambda *_: {}}, "a step by way activity has no payload"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_wait_that_can_t_work_is_refused(fields: Any, text: str) -> None:
    """When it is defined, with the field and the fix."""
    assert text in _defined(**fields)


def test_default_is_bounded() -> None:
    """It is a part of each task's shape."""

    class Note(Approval):
        text: str

    large = Default({"approved": True, "text": "x" * 4096})
    assert "bytes; 4096 fit" in _defined(payload=Note, on_expiry=large)


def test_wait_asks_nothing_of_anybody() -> None:
    """So its request, which nobody writes, is empty."""
    (waits,) = workflow(awaiting("ok")).steps
    assert waits.request(Approval(approved=True), {}) == {}
