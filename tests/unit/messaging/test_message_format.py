"""The application's own messages as JSON: orders, scheduler requests, notices and alerts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from functions.core.error_texts import faults_text
from functions.core.json_values import UnfitValueError
from functions.core.record import Message, MessageKind
from functions.messaging import queue_names
from functions.messaging.message_format import (
    MOST_IN_GROUP,
    MOST_MESSAGE_BYTES,
    MessageError,
    QueueMessage,
    SubmissionMessage,
    each_order,
    order_messages,
    payload_text,
    read_message,
)
from functions.messaging.queue_names import dead_letter_queue, handling_seconds
from functions.messaging.received_messages import DeliveryCounts, copy_of
from functions.messaging.rejected_messages import named_task
from functions.messaging.task_messages import (
    WITHHELD,
    AnnouncementMessage,
    ReleaseRequest,
    RunRequest,
    SchedulerMessage,
    WakeRequest,
    addressed,
    caller_reason,
    read_scheduler_message,
)
from tests.fakes.storage_process import START

LATER = START + timedelta(minutes=5)


def submission(task: str = "t-1", **fields: Any) -> SubmissionMessage:
    """Return an order."""
    given = {"workflow": "orders", "payload": {"weight": 3}, "submitter": "ann", "submitted_at": START}
    return SubmissionMessage.model_validate({"task_id": task, **given, **fields})


def child(kind: MessageKind) -> Message:
    """Return a message to or from a child task."""
    body = {"workflow": "w", "payload": '{"a":1}', "step": "s"}
    return Message(kind=kind, id=f"t.r.1.{kind}.s", task="t", at=START, to="c-1", body=body)


@pytest.mark.parametrize(
    ("message", "not_before"),
    [
        (RunRequest(task="t", epoch=1, run=2), None),
        (WakeRequest(task="t", at=START, not_before=LATER, attempt=1), LATER),
        (ReleaseRequest(gate="queue:a", link=3, at=LATER), LATER),
        *((child(kind), None) for kind in MessageKind if "child" in kind),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scheduler_message_is_read_as_it_was_written(message: SchedulerMessage, not_before: Any) -> None:
    """It is scheduled for its time, and duplicate detection compares its id."""
    queue, written, time = addressed(message)
    assert (queue, time) == ("scheduler-requests", not_before)
    assert written.message_id == message.id
    assert read_scheduler_message(written.body) == message


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 2}, {"kind": "other"}, {"task": "a|b"}, {"epoch": "x"}, {"run": None}],
    ids=str,
)
def test_other_scheduler_message_is_an_error(change: dict[str, object]) -> None:
    """The text names the field."""
    body = json.loads(addressed(RunRequest(task="t", epoch=1, run=2))[1].body)
    with pytest.raises(MessageError, match=next(iter(change))):
        read_scheduler_message(json.dumps(body | change).encode())


def test_long_id_keeps_to_the_limit_of_the_queue() -> None:
    """The end is a digest, so that two long ids differ."""
    ids = {
        addressed(replace(child(MessageKind.START_CHILD), id="x" * 140 + end))[1].message_id for end in "ab"
    }
    assert len(ids) == 2
    assert {len(each) for each in ids} == {128}


# Notices and alerts


def about(kind: MessageKind, **body: object) -> Message:
    """Return a message about a task."""
    facts = {"state": "Processed", "workflow": "orders", "epoch": 2, "correlation_id": "c-7", **body}
    return Message(kind=kind, id=f"t-1.{kind}", task="t-1", at=START, to="notices-demo", body=facts)


def test_notice_has_the_fields_that_callers_read() -> None:
    """The queue of the order gets it, with the output of the workflow."""
    queue, message, _ = addressed(about(MessageKind.COMPLETED, output='{"total":4.5}'))
    assert (queue, message.message_id) == ("notices-demo", "t-1.completed")
    assert (message.subject, message.correlation_id) == ("completed", "c-7")
    assert json.loads(message.body) == {
        "schema_version": 1,
        "kind": "completed",
        "id": "t-1",
        "workflow": "orders",
        "state": "Processed",
        "epoch": 2,
        "at": "2026-01-01T00:00:00Z",
        "correlation_id": "c-7",
        "output": {"total": 4.5},
    }


def test_notice_of_a_new_task_is_pending() -> None:
    """A reason in it is one for callers."""
    notice = read_message(AnnouncementMessage, addressed(about(MessageKind.RECEIVED, state=None))[1].body)
    assert (notice.state, notice.reason) == ("Pending", None)
    failed = addressed(about(MessageKind.FAILED, reason="pay: KeyError: 'card'"))[1].body
    assert read_message(AnnouncementMessage, failed).reason == WITHHELD


def test_alert_has_cause_and_reason() -> None:
    """One about a gate or about rows names no task."""
    queue, message, _ = addressed(about(MessageKind.ALERT, cause="error", reason="pay: no card"))
    alert = read_message(AnnouncementMessage, message.body)
    assert (queue, alert.id, alert.cause, alert.reason) == ("operator-alerts", "t-1", "error", "pay: no card")
    body = {"cause": "corrupt rows", "reason": "1 row", "rows": {"t|order": "no JSON"}}
    rows = Message(kind=MessageKind.ALERT, id="corrupt.1", task="", at=START, body=body)
    alert = read_message(AnnouncementMessage, addressed(rows)[1].body)
    assert (alert.id, alert.state, alert.rows) == ("", None, {"t|order": "no JSON"})


@pytest.mark.parametrize(
    ("reason", "public"),
    [
        ("pay: pay answered 402: no money for Ann", "pay: pay answered 402"),
        ("undo of pay: outcome unknown (KeyError)", "undo of pay: outcome unknown"),
        ("pay: its outcome is unknown (x)", "pay: its outcome is unknown"),
        ("seats.3: overdue after 6 recoveries", "seats.3: overdue after 6 recoveries"),
        ("the task: overdue after 6 recoveries", "the task: overdue after 6 recoveries"),
        (
            "ok: no event arrived by 2026-01-02 03:04:05 UTC",
            "ok: no event arrived by 2026-01-02 03:04:05 UTC",
        ),
        ("not finished within 3600 s", "not finished within 3600 s"),
        ("cancelled by its caller", "cancelled by its caller"),
        ("cancelled by its caller, says Olga", WITHHELD),
        ("pay: pay answered 4021", WITHHELD),
        ("pay: secret", WITHHELD),
        ("", WITHHELD),
        (None, None),
    ],
)
def test_callers_see_no_internal_text(reason: str | None, public: str | None) -> None:
    """The step, the status of the service and times stay."""
    assert caller_reason(reason) == public


# Orders


def test_order_is_read_as_it_was_written() -> None:
    """Without its empty fields. A single order is a message of its own."""
    order = submission(reply_to="notices-demo", version=2)
    assert read_message(SubmissionMessage, order.body) == order
    assert b"correlation_id" not in order.body
    [(message, _)] = order_messages([submission(correlation_id="c-1")], [None])
    assert (message.message_id, message.correlation_id) == (submission().id, "c-1")
    assert each_order(message) == [message]
    assert list(order_messages([], [])) == []


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"submitted_at": LATER, "correlation_id": "c"}, True),
        ({"payload": {"weight": 4}}, False),
        ({"reply_to": "notices-demo"}, False),
        ({"workflow": "deliveries"}, False),
    ],
    ids=str,
)
def test_order_is_compared_by_its_content(changes: dict[str, Any], *, is_same: bool) -> None:
    """The message id, too: duplicate detection drops no other order under the same task id."""
    one, other = submission(), submission(**changes)
    assert (one.digest == other.digest, one.id == other.id) == (is_same, is_same)
    assert len(submission("x" * 64).id) <= 128


def test_payload_is_recorded_as_it_was_sent() -> None:
    """In its order, without a loss of digits of an integer; a number with a fraction is a double."""
    sent = b'{"b":1.0,"i":12345678901234567890123,"d":9007199254740993.0001,"a":1,"a":2}'
    body = submission().body.replace(b'{"weight":3}', sent)
    recorded = '{"b":1.0,"i":12345678901234567890123,"d":9007199254740994.0,"a":2}'
    assert payload_text(read_message(SubmissionMessage, body).payload) == recorded


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        ({"text": "x" * 48 * 1024}, "payload: more than 49152 bytes"),
        ({"n": float("inf")}, "payload.n has a number"),
        ({"text": "\ud800"}, "half of a character"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_payload_that_cannot_be_recorded_is_an_error(payload: dict[str, Any], fault: str) -> None:
    """The limit is in bytes of UTF-8."""
    with pytest.raises(UnfitValueError, match=fault):
        payload_text(payload)
    assert payload_text({"text": "ü" * 24_000})


TRACE = f"00-{'1' * 32}-{'2' * 16}-01"


@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=60))
def test_orders_travel_together_and_arrive_one_by_one(sizes: list[int]) -> None:
    """Each as if it was sent alone, with its trace; no message is too large or has too many orders."""
    orders = [submission(f"t-{number}", payload={"x": "x" * size}) for number, size in enumerate(sizes)]
    traces = [TRACE if number % 3 else None for number in range(len(orders))]
    groups = list(order_messages(orders, traces))
    received = [each for message, _ in groups for each in each_order(message)]
    assert [each.body for each in received] == [order.body for order in orders]
    assert [each.properties.get("traceparent") for each in received] == traces
    assert {each.subject for each in received} == {"orders"}
    assert [count for _, count in groups] == [len(each_order(message)) for message, _ in groups]
    assert max(count for _, count in groups) <= MOST_IN_GROUP
    assert max(len(message.body) for message, _ in groups) <= 200_000
    assert len({message.message_id for message, _ in groups}) == len(groups)


@pytest.mark.parametrize(
    "body",
    [
        b'{"schema_version":1,"orders":3}\n{}\n{}',
        b'{"schema_version":1,"orders":2,"traces":[null]}\n{}\n{}',
        b'{"schema_version":2,"orders":2}\n{}\n{}',
        b'{"orders":26}' + b"\n{}" * 26,
        b"\n\n",
    ],
    ids=lambda body: str(body[:45]),
)
def test_incomplete_group_is_one_message(body: bytes) -> None:
    """It is rejected whole."""
    message = QueueMessage(message_id="m", body=body)
    assert each_order(message) == [message]


# Reading


class Inner(BaseModel):
    """A part of a payload."""

    door: int


class Outer(BaseModel):
    """A payload."""

    rooms: dict[str, Inner]
    card: str = ""


def test_faults_name_places_and_no_values() -> None:
    """With `levels`, no names that a payload may have made secret."""
    body = b'{"rooms":{"c4n4ry":{"door":"c4n4ry-2"}},"card":7}'
    with pytest.raises(MessageError) as raised:
        read_message(Outer, body)
    assert str(raised.value) == (
        "rooms.c4n4ry.door: Input should be a valid integer; card: Input should be a valid string"
    )
    with pytest.raises(ValueError, match="door") as invalid:
        Outer.model_validate_json(body, strict=True)
    text = faults_text(invalid.value, levels=1)  # type: ignore[arg-type]
    assert text == "rooms: Input should be a valid integer; card: Input should be a valid string"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"task_id":"t-1","step":"pay"}', ("t-1", "pay")),
        (b'{"task":"t-1","step":"seats.3"}', ("t-1", "seats.3")),
        (b'{"id":"t-1","step":"No"}', ("t-1", None)),
        (b'{"task_id":"a|b"}', (None, None)),
        (b'{"task_id":7}', (None, None)),
        *((body, (None, None)) for body in (b"[]", b"{", b"\xff", b"")),
    ],
)
def test_task_of_any_body_is_found(body: bytes, found: tuple[str | None, str | None]) -> None:
    """If it is an id of a task."""
    assert named_task(body) == found


def test_message_of_the_host_keeps_what_can_be_sent_again() -> None:
    """No property of another type, and no half of a character."""
    whole = {"tenant": "blue", "weight": 2}
    properties = {**whole, "odd": [1], "none": None, "half": "\ud800", "\ud800": 1}
    for text, kept in (("s", "s"), ("\ud800", None), (None, None)):
        message = QueueMessage.received(text, b"{}", properties, text, text)
        assert (message.message_id, message.properties) == (kept or "", whole)
        assert (message.subject, message.correlation_id) == (kept, kept)


def test_copy_has_another_id_each_time() -> None:
    """A repetition of the same copy has the same id; counts of other senders do not count."""
    message = QueueMessage(message_id="invoice-2026.a9", body=b"x", properties={"counted.attempts": "9"})
    assert DeliveryCounts.of(message) == DeliveryCounts()
    first = copy_of(message, DeliveryCounts(attempts=1))
    assert first == copy_of(message, DeliveryCounts(attempts=1))
    assert DeliveryCounts.of(first) == DeliveryCounts(attempts=1)
    others = [copy_of(message, DeliveryCounts(put_back=1)), copy_of(message, DeliveryCounts(), 1)]
    others += [copy_of(replace(message, message_id="", body=body), DeliveryCounts()) for body in (b"1", b"2")]
    assert len({each.message_id for each in (message, first, *others)}) == 6
    assert copy_of(first, DeliveryCounts(), 1).properties == {}


def test_copy_of_a_message_that_is_nearly_too_large_fits() -> None:
    """It has no properties of its sender, and no labels."""
    body, properties = b"x" * MOST_MESSAGE_BYTES, {"p": "x" * 8000}
    large = QueueMessage(message_id="m", body=body, subject="s", properties=properties)
    copy = copy_of(large, DeliveryCounts(put_back=1))
    assert copy.size < MOST_MESSAGE_BYTES + 500
    assert (copy.properties, copy.subject) == ({"counted.put_back": 1}, None)


# Queues


def test_message_is_handled_within_the_lock_of_its_queue() -> None:
    """Also in a dead-letter queue, and in the queue of any Agent."""
    for queue in queue_names.all_queues(["hotel"]):
        lock = queue_names.properties_of(queue).lock
        assert 0 < handling_seconds(queue) == handling_seconds(dead_letter_queue(queue)) <= lock * 0.8


@pytest.mark.parametrize(
    ("source", "dead_letters", "resent_to"),
    [
        ("agent-replies", "agent-replies/$DeadLetterQueue", "agent-replies"),
        (queue_names.hub_source("order-events"), "eventhub|order-events", "submissions"),
    ],
)
def test_message_is_sent_again_to_its_source(source: str, dead_letters: str, resent_to: str) -> None:
    """An event is sent to the queue of orders."""
    assert dead_letter_queue(source) == dead_letters
    assert queue_names.resend_queue(source) == queue_names.resend_queue(dead_letters) == resent_to
