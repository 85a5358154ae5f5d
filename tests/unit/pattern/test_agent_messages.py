"""The two messages between a Scheduler and an Agent, and the schemas that other teams write theirs by."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.pattern.agent_messages import (
    AgentReply,
    AgentRequest,
    done,
    done_without_result,
    not_taken,
    refused,
)
from functions.pattern.messages import requests_queue, seconds_left
from tests.contract.schemas import FOLDER, examples, schema_files
from tests.fakes.clock import START
from tests.fakes.tasks import after

[SHOWN_REQUEST], SHOWN_REPLIES = examples()
REQUEST = AgentRequest.model_validate(SHOWN_REQUEST, strict=False)


def test_each_agent_has_a_queue_of_its_own() -> None:
    """Its name follows from the Agent's."""
    assert requests_queue("payment") == "agent-payment-requests"


def test_request_travels_as_the_document_shows_it() -> None:
    """Field by field, with times in UTC."""
    assert json.loads(REQUEST.model_dump_json()) == SHOWN_REQUEST
    assert REQUEST.complete_by == datetime(2026, 11, 21, 12, 6, 0, 250_000, UTC)


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


def test_step_that_is_dispatched_again_has_another_message_id() -> None:
    """A queue that drops duplicates lets it pass."""
    second = REQUEST.model_copy(update={"dispatch": 2, "item": 1})
    assert second.message_id == f"{REQUEST.message_id}.1.r2"
    assert json.loads(second.model_dump_json())["dispatch"] == 2


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


def test_work_has_its_time_from_its_begin_and_never_past_complete_by() -> None:
    """What was left of the wait on the queue is not for the work."""
    now = REQUEST.complete_by - timedelta(seconds=300)
    assert REQUEST.work_ends_by(now) == now + timedelta(seconds=60)
    assert REQUEST.work_ends_by(REQUEST.complete_by - timedelta(seconds=20)) == REQUEST.complete_by


def test_items_of_a_step_are_asked_for_one_by_one() -> None:
    """The reply does not name the item: it echoes the token, which is the item's own."""
    first, second = (REQUEST.model_copy(update={"item": item}) for item in (0, 1))
    assert (first.message_id, second.message_id) == (f"{REQUEST.message_id}.0", f"{REQUEST.message_id}.1")
    assert json.loads(second.model_dump_json())["item"] == 1
    assert done(second, {}) == done(REQUEST, {})


def test_document_shows_each_outcome() -> None:
    """Whoever reads it needs to know no fourth."""
    assert [shown["outcome"] for shown in SHOWN_REPLIES] == ["completed", "failed", "not_taken"]


def test_schemas_are_current() -> None:
    """Whoever changes a message is told to write them anew."""
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
