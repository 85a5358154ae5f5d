"""Messages: submissions, their groups, requests to Agents, replies, repetitions, and the intake."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from functions.pattern.agent_messages import (
    AgentReply,
    AgentRequest,
    done,
    done_without_result,
    not_taken,
    refused,
)
from functions.pattern.announcements import announcements
from functions.pattern.errors import PayloadTooLargeError
from functions.pattern.identity import TASK_ID_PATTERN, Epoch, TaskId
from functions.pattern.intake import IntakeLimits, IntakeState, Line, measured, read_intake
from functions.pattern.messages import (
    MAX_PAYLOAD_BYTES,
    AnnouncementMessage,
    SchedulerRequest,
    SubmissionMessage,
    announcement_message,
    content_digest,
    order_of,
    requests_queue,
    seconds_left,
)
from functions.pattern.rejected import Content, Labels
from functions.pattern.sent_again import Counts, resent
from functions.pattern.states import Remedy
from functions.pattern.submission_groups import MOST_IN_GROUP, groups_of, orders_in
from tests.contract.schemas import FOLDER, examples, schema_files
from tests.fakes.clock import START
from tests.fakes.interventions import giving_up, supervised
from tests.fakes.orders import ORDERS
from tests.fakes.tasks import after, pending
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
    # Order carries what its task is made of.
    order = order_of(submission(), TRIP, BIRTH)
    assert order.shape == TRIP.shape
    assert order.resource == "task-1.0a1b2c3d"
    # Wrong payload is refused.
    with pytest.raises(ValidationError):
        order_of(submission().model_copy(update={"payload": {"weight": "heavy"}}), DIAMOND, BIRTH)
    # Payload that no row can hold is refused.
    assert len(_letter(MAX_PAYLOAD_BYTES)) == MAX_PAYLOAD_BYTES
    with pytest.raises(PayloadTooLargeError, match="payload: more than 49152 bytes"):
        _letter(MAX_PAYLOAD_BYTES + 1)


class _Letter(BaseModel):
    text: str


def _letter(size: int) -> bytes:
    text = "x" * (size - len(b'{"text":""}'))
    message = submission().model_copy(update={"payload": {"text": text}})
    return order_of(message, replace(DIAMOND, payload=_Letter), BIRTH).payload


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
    # Digest is what it was.
    assert content_digest("orders", b"{}", None) == (
        "af7e49b411c5a65187f84b538336fd2dd028ce81251e181bde11a43d0669fc4f"
    )


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


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROOT = Path(__file__).parents[3]


def _orders(count: int, *, note: str = "") -> list[SubmissionMessage]:
    payload = {**submission().payload, "note": note}
    orders = (submission(task=TaskId(f"o-{number}")) for number in range(count))
    return [each.model_copy(update={"payload": payload}) for each in orders]


def test_orders_come_out_as_they_went_in() -> None:
    """With their traces; the message is named by what is in it."""
    orders = _orders(2, note="a\nb")
    [group] = groups_of(orders, [TRACE, None])
    taken = orders_in(group.body) or []
    assert [(each.body, each.traceparent) for each in taken] == [
        (orders[0].written, TRACE),
        (orders[1].written, None),
    ]
    assert [each.traceparent for each in orders_in(next(groups_of(orders, [])).body) or []] == [None, None]
    assert (group.orders, group.subject) == (2, orders[0].workflow)
    ids = [next(groups_of(some, [])).message_id for some in (orders, orders, orders[::-1], orders[:1])]
    assert [len(set(ids)), ids[0] == ids[1], {*map(len, ids)}] == [3, True, {32}]


@pytest.mark.parametrize(("count", "bytes_each", "most"), [(0, 1, 0), (60, 1, 25), (20, 40_000, 4)])
def test_messages_are_few_and_bounded(count: int, bytes_each: int, most: int) -> None:
    """By their orders, and by their bytes."""
    orders = _orders(count, note="x" * bytes_each)
    groups = list(groups_of(orders, [TRACE] * count))
    assert [each.body for group in groups for each in orders_in(group.body) or []] == [
        each.written for each in orders
    ]
    assert all(len(group.body) <= 200_000 for group in groups)
    assert all(group.orders == most for group in groups[:-1])


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"{}\n{}", b'{"schema_version":1,"orders":2}\n{}', b'{\n"schema_version": 1\n}']
)
def test_other_messages_are_no_groups(body: bytes) -> None:
    """Such as one order, however its JSON is set out, or one of which a part is lost."""
    assert orders_in(body) is None


def test_one_invocation_takes_a_thousand_orders_at_most() -> None:
    """All of them are recorded within the lock of their messages."""
    host = json.loads((ROOT / "host.json").read_text(encoding="utf-8"))
    assert host["extensions"]["serviceBus"]["maxMessageBatchSize"] * MOST_IN_GROUP <= 1_000


def _content(body: bytes = b"{}", **properties: Any) -> Content:
    return Content(body, Labels(subject="line", correlation_id="c-1", properties=properties))


def test_message_carries_its_counts_and_all_that_it_had() -> None:
    """One that waits anew has not failed yet."""
    content = _content(tenant="blue")
    assert Counts.of(content) == Counts()
    for counts in (Counts(2, 1), Counts(2, 1).once_failed(), Counts(2, 1).once_put_back()):
        _, content = counts.sent_with("m-1", content)
        assert Counts.of(content) == counts
    assert counts == Counts(put_back=3, attempts=0)
    assert resent("m-1", content, 1)[1] == _content(tenant="blue")
    # A repeated send has the same id.
    assert Counts(1, 2).sent_with("m-1", _content()) == Counts(1, 2).sent_with("m-1", _content())


@pytest.mark.parametrize("count", ["9", -1, True, 1.0, None])
def test_what_is_no_count_counts_for_nothing(count: Any) -> None:
    """Whoever sends may write what he likes."""
    assert Counts.of(_content(**{"counted.attempts": count})) == Counts()
    # Properties of a sender are no counts.
    assert Counts.of(_content(attempts=9, put_back=55)) == Counts()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("x" * 127 + "1", b"{}"), ("x" * 127 + "2", b"{}")),
        (("", b"1"), ("", b"2")),
        (("m-1.a1", b"{}"), ("m-1", b"{}")),
    ],
    ids=["long", "none", "alike"],
)
def test_two_messages_stay_two(one: tuple[str, bytes], other: tuple[str, bytes]) -> None:
    """Their queue would drop the second."""
    names = {
        Counts(put_back, attempts).sent_with(message_id, _content(body))[0]
        for message_id, body in (one, other)
        for put_back, attempts in ((0, 1), (1, 0), (1, 1))
    }
    names |= {
        resent(known_as, _content(body), times)[0] for known_as, body in (one, other) for times in (1, 2)
    }
    assert len(names | {one[0], other[0]}) == 12 - (one[0] == other[0])


@pytest.mark.parametrize("message_id", ["", "m-1", "x" * 128, "\U0001f600" * 64])
def test_each_time_has_an_id_of_its_own_that_service_bus_takes(message_id: str) -> None:
    """However often it is sent; its ids hold at most 128 UTF-16 code units."""
    counts, content, names = Counts(), _content(), [message_id]
    for _ in range(60):
        counts = counts.once_failed() if counts.attempts < 2 else counts.once_put_back()
        name, content = counts.sent_with(names[-1], content)
        names.append(name)
    assert len(set(names)) == 61
    assert max(len(each.encode("utf-16-le")) // 2 for each in names) <= 128
    assert all(each.startswith(message_id[:7]) for each in names)


[SHOWN_REQUEST], SHOWN_REPLIES = examples()
REQUEST = AgentRequest.model_validate(SHOWN_REQUEST, strict=False)


def test_request_travels_as_the_document_shows_it() -> None:
    """Field by field, with times in UTC."""
    assert json.loads(REQUEST.model_dump_json()) == SHOWN_REQUEST
    assert REQUEST.complete_by == datetime(2026, 11, 21, 12, 6, 0, 250_000, UTC)
    # Each agent has a queue of its own.
    assert requests_queue("payment") == "agent-payment-requests"
    # Work has its time from its begin and never past complete by.
    now = REQUEST.complete_by - timedelta(seconds=300)
    assert REQUEST.work_ends_by(now) == now + timedelta(seconds=60)
    assert REQUEST.work_ends_by(REQUEST.complete_by - timedelta(seconds=20)) == REQUEST.complete_by


@pytest.mark.parametrize("shown", SHOWN_REPLIES, ids=lambda shown: str(shown["outcome"]))
def test_reply_of_the_document_is_understood(shown: dict[str, Any]) -> None:
    """It echoes the document's request."""
    reply = AgentReply.model_validate_json(json.dumps(shown))
    assert (reply.task_id, reply.step) == (REQUEST.task_id, REQUEST.step)
    assert (reply.epoch, reply.token) == (REQUEST.epoch, REQUEST.token)


def test_request_sent_again_has_the_same_message_id() -> None:
    """So duplicate detection drops it; another epoch's request is another message."""
    again, later = (
        REQUEST.model_copy(update={"token": "0" * 32}),
        REQUEST.model_copy(update={"epoch": REQUEST.epoch + 1}),
    )
    assert again.message_id == REQUEST.message_id
    assert later.message_id != REQUEST.message_id
    # Step that is dispatched again has another message id.
    second = REQUEST.model_copy(update={"dispatch": 2, "item": 1})
    assert second.message_id == f"{REQUEST.message_id}.1.r2"
    assert json.loads(second.model_dump_json())["dispatch"] == 2
    # Items of a step are asked for one by one.
    first, second = (REQUEST.model_copy(update={"item": item}) for item in (0, 1))
    assert (first.message_id, second.message_id) == (f"{REQUEST.message_id}.0", f"{REQUEST.message_id}.1")
    assert json.loads(second.model_dump_json())["item"] == 1
    assert done(second, {}) == done(REQUEST, {})


@pytest.mark.parametrize(("seconds_left", "too_long"), [(61, False), (60, False), (59.9, True), (-1, True)])
def test_request_that_has_less_than_its_time_left_waited_too_long(
    seconds_left: float, *, too_long: bool
) -> None:
    """One that does not say `complete_within` has until complete-by, however little that is."""
    now = REQUEST.complete_by - timedelta(seconds=seconds_left)
    assert REQUEST.waited_too_long(now) is too_long
    endless = REQUEST.model_copy(update={"complete_within": None})
    assert not endless.waited_too_long(now)
    assert endless.work_ends_by(now) == REQUEST.complete_by


def test_document_shows_each_outcome() -> None:
    """Whoever reads it needs to know no fourth."""
    assert [shown["outcome"] for shown in SHOWN_REPLIES] == ["completed", "failed", "not_taken"]
    # Schemas are current.
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert written == schema_files(), "run: python -m tests.contract.schemas"


@pytest.mark.parametrize("message", [AgentRequest, AgentReply])
def test_every_field_is_described(message: type[AgentRequest | AgentReply]) -> None:
    """The schema says what each is for."""
    assert [name for name, field in message.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (done(REQUEST, {"reference": "P-1"}), {"outcome": "completed", "result": {"reference": "P-1"}}),
        (done_without_result(REQUEST, "no JSON"), {"outcome": "completed", "no_result": "no JSON"}),
        (refused(REQUEST, "it is blocked"), {"outcome": "failed", "error": "it is blocked"}),
        (not_taken(REQUEST), {"outcome": "not_taken"}),
    ],
    ids=["done", "done without a result", "refused", "not taken"],
)
def test_reply_echoes_its_request(reply: AgentReply, told: dict[str, Any]) -> None:
    """That makes it count."""
    echoed = {name: SHOWN_REQUEST[name] for name in ("schema_version", "task_id", "step", "epoch", "token")}
    assert json.loads(reply.model_dump_json(exclude_defaults=True)) == echoed | told


def test_reason_is_cut_to_what_a_row_keeps() -> None:
    """A service may have a lot to say."""
    assert refused(REQUEST, "x" * 1_001).error == "x" * 999 + "…"
    assert done_without_result(REQUEST, "x" * 1_001).no_result == "x" * 999 + "…"


@pytest.mark.parametrize("message", [REQUEST, AgentReply.model_validate(SHOWN_REPLIES[0])])
def test_token_is_not_shown(message: AgentRequest | AgentReply) -> None:
    """It is a secret: a log that holds the message must not hold it."""
    assert message.token not in repr(message)


@pytest.mark.parametrize(("at", "left"), [(10, 10), (0, 0), (-1, 0)])
def test_request_lives_until_complete_by(at: float, left: float) -> None:
    """In seconds, and never less than none."""
    assert seconds_left(after(at), START) == left


LIMITS = IntakeLimits(age=timedelta(minutes=10), waiting=1_000)


@pytest.mark.parametrize(
    ("count", "late", "age", "retry_after"),
    [
        (0, 0, None, 0),
        (1_000, 0, 600, 0),
        (1_001, 0, 1, 16),
        (600, 401, 1, 16),
        (21, 0, 601, 16),
        (3_000, 0, 1, 45),
        (10**7, 0, 1, 300),
    ],
)
def test_retry_after_grows_with_what_waits(
    count: int, late: int, age: float | None, retry_after: int
) -> None:
    """Between 15 seconds and 5 minutes; tasks that nobody has claimed wait, too."""
    since = None if age is None else after(1_000 - age)
    assert measured(Line(count, since), late, after(1_000), LIMITS).retry_after == retry_after


def test_what_was_measured_long_ago_closes_nothing() -> None:
    """The timer may not run any more, and the line be gone."""
    intake = measured(Line(5_000, after(0)), 0, after(10), LIMITS)
    assert (intake.closed_for(after(70)), intake.closed_for(after(70.1))) == (75, 0)
    assert replace(intake, retry_after=0).closed_for(after(10)) == 0
    # Message from the future has not waited.
    assert measured(Line(30, after(2)), 0, after(0), LIMITS).oldest_seconds == 0


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.floats(0, 10**7))
def test_row_comes_back(count: int, late: int, age: float) -> None:
    """With whatever the table adds; what can't be read is nothing."""
    intake = measured(Line(count, after(-age)), late, after(0), LIMITS)
    assert read_intake({**asdict(intake), "Timestamp": "x"}) == intake
    assert isinstance(intake, IntakeState)
    assert read_intake({"at": "never"}) is None
    assert read_intake(asdict(intake) | {"at": "2026-11-21T10:00:00"}) is None
    assert read_intake(None) is None
