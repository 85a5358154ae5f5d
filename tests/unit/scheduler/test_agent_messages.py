"""The messages of Agents behind queues: fields, bounds, one clear error, and the secret start id."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.agents.agent_call import Call
from functions.core.record import Direction
from functions.core.task_events import OutcomeKind
from functions.messaging.agent_messages import AgentReply, AgentRequest
from functions.messaging.message_format import MOST_MESSAGE_BYTES, MessageError, read_message
from functions.messaging.queue_names import requests_queue

START_ID = "5f0c3e0a9b7d4c1e8a26d3f4b5c6a7e8"
CALL = Call(
    task="my-order",
    step="seats.3",
    direction=Direction.UNDO,
    effect_key="my-order.r1/seats.3/undo",
    request='{"customer":"C-1042"}',
    complete_by=datetime(2026, 11, 21, 12, 6, tzinfo=UTC),
    start_id=START_ID,
    epoch=2,
    idempotent=True,
    do_result='{"seat":"12A"}',
)
REPLY: dict[str, Any] = {
    "schema_version": 1,
    "task_id": "my-order",
    "step": "seats.3",
    "direction": "do",
    "epoch": 2,
    "start_id": START_ID,
    "outcome": "done",
    "result": {"seat": "12A"},
}
#: The fields of a reply to a look-up.
FIND = {"kind": "find", "result": None}
NOT_DONE = {**FIND, "outcome": "not_done"}


def read(**fields: Any) -> AgentReply:
    """Return a reply with other fields."""
    return read_message(AgentReply, json.dumps({**REPLY, **fields}).encode())


def test_request_has_all_that_an_agent_needs() -> None:
    """It is read again as it was sent."""
    request = CALL.to_request()
    body = json.loads(request.model_dump_json())
    assert body == {
        "schema_version": 1,
        "task_id": "my-order",
        "step": "seats.3",
        "direction": "undo",
        "epoch": 2,
        "start_id": START_ID,
        "kind": "carry out",
        "effect_key": "my-order.r1/seats.3/undo",
        "complete_by": "2026-11-21T12:06:00Z",
        "idempotent": True,
        "request": {"customer": "C-1042"},
        "result": {"seat": "12A"},
    }
    assert read_message(AgentRequest, request.model_dump_json().encode()) == request
    in_another_zone = json.dumps(body | {"complete_by": "2026-11-21T13:06:00+01:00"}).encode()
    assert read_message(AgentRequest, in_another_zone).complete_by.isoformat() == "2026-11-21T12:06:00+00:00"
    assert replace(CALL, do_result=None).to_request().result is None
    assert requests_queue("post") == "agent-post-requests"


def test_start_id_is_in_no_log() -> None:
    """Neither the id of the message nor a text of it holds the start id."""
    request, find = CALL.to_request(), replace(CALL, is_look_up=True).to_request()
    other = replace(CALL, start_id="1" * 32).to_request()
    assert len({request.message_id, find.message_id, other.message_id}) == 3
    assert request.message_id == CALL.to_request().message_id
    for text in (request.message_id, repr(request), str(read()), repr(CALL)):
        assert START_ID not in text
    with pytest.raises(MessageError) as error:
        read(start_id=START_ID * 5, outcome="no")
    assert START_ID not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "kind", "result", "error"),
    [
        ({}, OutcomeKind.DONE, '{"seat":"12A"}', None),
        ({"result": None}, OutcomeKind.DONE, "{}", None),
        ({"no_result": "漢" * 999, "result": {}}, OutcomeKind.DONE_WITHOUT_RESULT, None, "漢" * 340 + "…"),
        ({"direction": "undo"}, OutcomeKind.DONE, None, None),
        ({"direction": "undo", "result": None, "no_result": "large"}, OutcomeKind.DONE, None, "large"),
        ({"outcome": "refused", "result": None, "error": "no"}, OutcomeKind.REFUSED, None, "no"),
        ({"outcome": "not_taken", "result": None}, OutcomeKind.NOT_BEGUN, None, None),
        ({"outcome": "unknown", "result": None, "error": "lost"}, OutcomeKind.UNKNOWN, None, "lost"),
        ({"a_later_field": 1}, OutcomeKind.DONE, '{"seat":"12A"}', None),
        ({"kind": "find"}, OutcomeKind.DONE, '{"seat":"12A"}', None),
        (NOT_DONE, OutcomeKind.UNKNOWN, None, "find: not_done"),
        ({**NOT_DONE, "fences_starts": True}, OutcomeKind.NOT_BEGUN, None, "find: not_done"),
        ({**FIND, "outcome": "unknown", "error": "down"}, OutcomeKind.UNKNOWN, None, "find: unknown down"),
    ],
)
def test_reply_is_an_outcome(
    fields: dict[str, Any], kind: OutcomeKind, result: str | None, error: str | None
) -> None:
    """Unknown fields are ignored, and an empty field counts as missing."""
    event = read(**fields).event
    assert (event.kind, event.result, event.error) == (kind, result, error)
    assert (event.epoch, event.step, event.start_id) == (2, "seats.3", START_ID)
    assert event.is_look_up is ("kind" in fields)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "JSON"),
        (b"[]", "object"),
        (b"\xff", "JSON"),
        (b"{}", "Field required"),
        (b"[" * 100_000, "JSON"),
        (b" " * (MOST_MESSAGE_BYTES + 1), "the limit is"),
    ],
)
def test_body_that_is_no_message(body: bytes, fault: str) -> None:
    """Not JSON, no object, no UTF-8, nothing in it, too deep, too large to be parsed."""
    with pytest.raises(MessageError, match=fault):
        read_message(AgentReply, body)


def test_last_value_of_a_name_counts() -> None:
    """As in most parsers."""
    body = json.dumps(REPLY).replace('"epoch": 2', '"epoch": 1, "epoch": 2').encode()
    assert read_message(AgentReply, body).epoch == 2
