"""Submissions survive their way over the queue, and equal orders are known as equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from functions.pattern.announcements import announcements
from functions.pattern.errors import PayloadTooLargeError
from functions.pattern.identity import TASK_ID_PATTERN, Epoch, TaskId
from functions.pattern.messages import (
    MAX_PAYLOAD_BYTES,
    AnnouncementMessage,
    SchedulerRequest,
    SubmissionMessage,
    announcement_message,
    content_digest,
    order_of,
)
from functions.pattern.states import Remedy
from tests.fakes.interventions import giving_up, supervised
from tests.fakes.orders import ORDERS
from tests.fakes.tasks import pending
from tests.fakes.workflows import BIRTH, DIAMOND, TASK, TRIP, submission, trip


def _wire(**changes: Any) -> dict[str, Any]:
    return submission().model_dump(mode="json") | changes


@given(
    task=st.from_regex(TASK_ID_PATTERN, fullmatch=True), weight=st.integers(), reply_to=st.none() | st.text()
)
def test_submission_comes_back_from_the_wire(task: str, weight: int, reply_to: str | None) -> None:
    """What was sent is what is read."""
    message = submission(task=TaskId(task), weight=weight).model_copy(update={"reply_to": reply_to})
    assert SubmissionMessage.model_validate_json(message.model_dump_json()) == message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"priority": 1}, "priority"),
        ({"schema_version": 2}, "schema_version"),
        ({"task_id": "a|b"}, "task_id"),
        ({"task_id": ""}, "task_id"),
        ({"task_id": "a" * 65}, "task_id"),
        ({"task_id": "a\n"}, "task_id"),
        ({"payload": []}, "payload"),
        ({"submitter": "x" * 257}, "submitter"),
        ({"submitted_at": "yesterday"}, "submitted_at"),
        ({"correlation_id": ""}, "correlation_id"),
        ({"correlation_id": "x" * 129}, "correlation_id"),
    ],
)
def test_wrong_or_unknown_field_is_refused(change: dict[str, Any], field: str) -> None:
    """Nothing that is not understood is let through."""
    with pytest.raises(ValidationError) as refusal:
        SubmissionMessage.model_validate(_wire(**change))
    assert [fault["loc"][0] for fault in refusal.value.errors()] == [field]


def test_order_carries_what_the_submission_said() -> None:
    """Nothing is lost between the message and the order."""
    message = submission(weight=7).model_copy(update={"reply_to": "notices-demo"})
    order = order_of(message, DIAMOND, BIRTH)
    assert order.payload == b'{"weight":7}'
    assert (order.task, order.workflow, order.workflow_version) == (message.task_id, "diamond", 1)
    assert (order.submitter, order.submitted_at) == (message.submitter, message.submitted_at)
    assert (order.reply_to, order.correlation_id) == ("notices-demo", "c-1")


def test_wrong_payload_is_refused() -> None:
    """The payload must be its workflow's."""
    with pytest.raises(ValidationError):
        order_of(submission().model_copy(update={"payload": {"weight": "heavy"}}), DIAMOND, BIRTH)


class _Letter(BaseModel):
    text: str


def _letter(size: int) -> bytes:
    text = "x" * (size - len(b'{"text":""}'))
    message = submission().model_copy(update={"payload": {"text": text}})
    return order_of(message, replace(DIAMOND, payload=_Letter), BIRTH).payload


def test_payload_that_no_row_can_hold_is_refused() -> None:
    """At the limit it is taken, one byte above it is not."""
    assert len(_letter(MAX_PAYLOAD_BYTES)) == MAX_PAYLOAD_BYTES
    with pytest.raises(PayloadTooLargeError, match="payload: more than 49152 bytes"):
        _letter(MAX_PAYLOAD_BYTES + 1)


def test_order_carries_what_its_task_is_made_of() -> None:
    """So that whoever has the record needs no definition."""
    order = order_of(submission(), TRIP, BIRTH)
    assert order.shape == TRIP.shape
    assert order.resource == "task-1.0a1b2c3d"


def test_equal_content_has_one_digest_whatever_its_field_order() -> None:
    """A caller that repeats itself may write its fields in another order."""
    item = {"sku": "TEA", "quantity": 1, "unit_price": "4.90"}
    turned = {"unit_price": "4.90", "quantity": 1, "sku": "TEA"}
    first = {"customer": "C", "currency": "EUR", "items": [item]}
    second = {"items": [turned], "currency": "EUR", "customer": "C"}
    digests = {
        order_of(submission().model_copy(update={"payload": payload}), ORDERS, BIRTH).digest
        for payload in (first, second)
    }
    assert len(digests) == 1


@given(
    st.lists(
        st.tuples(st.text(max_size=3), st.binary(max_size=3), st.none() | st.text(min_size=1, max_size=3)),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
def test_other_content_has_another_digest(contents: list[tuple[str, bytes, str | None]]) -> None:
    """Also when the parts, joined, are the same bytes."""
    first, second = contents
    assert content_digest(*first) != content_digest(*second)


def test_digest_is_what_it_was() -> None:
    """Digests of orders on record are compared with those of a later version."""
    assert content_digest("orders", b"{}", None) == (
        "af7e49b411c5a65187f84b538336fd2dd028ce81251e181bde11a43d0669fc4f"
    )


def test_announcement_comes_back_from_the_wire() -> None:
    """A caller reads the order's id, its state and the reason; the reply queue is the operator's matter."""
    before = pending(trip(remedy=Remedy.HOLD))
    (alert,) = announcements(before, supervised(before, giving_up()))
    message = announcement_message(alert)
    assert AnnouncementMessage.model_validate_json(message.model_dump_json()) == message
    assert message.model_dump(mode="json", exclude={"at"}) == {
        "schema_version": 1,
        "kind": "alert",
        "id": "task-1",
        "workflow": "trip",
        "state": "Error",
        "epoch": 1,
        "correlation_id": "c-1",
        "reason": "still overdue",
        "answer": None,
    }
    assert message.at == alert.at


@pytest.mark.parametrize(
    "change", [{"task_id": "a|b"}, {"epoch": 0}, {"schema_version": 2}, {"urgent": True}]
)
def test_request_that_is_not_understood_is_refused(change: dict[str, Any]) -> None:
    """A Scheduler is started for known tasks and epochs only."""
    known = {"task_id": TASK, "epoch": 2}
    assert SchedulerRequest.model_validate(known).epoch == Epoch(2)
    with pytest.raises(ValidationError):
        SchedulerRequest.model_validate(known | change)
