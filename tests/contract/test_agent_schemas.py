"""The published schemas of the Agents' messages equal the code: each rule is tested on both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import pytest

from functions.agents.agent_call import Call
from functions.core.json_values import UnfitValueError, json_text
from functions.core.record import Direction
from functions.messaging.agent_messages import (
    AgentReply,
    AgentRequest,
    ReplyOutcome,
    RequestKind,
)
from functions.messaging.message_format import MessageError, read_message
from tests.contract.schemas import FOLDER, messages, schema_files

type Message = Mapping[str, Any]

MODELS: dict[str, type[AgentReply | AgentRequest]] = {"reply": AgentReply, "request": AgentRequest}
SCHEMAS = {name: json.loads((FOLDER / f"agent-{name}.schema.json").read_bytes()) for name in MODELS}
BASES = {
    "reply": json.loads(messages()["reply-done.json"]),
    "request": json.loads(messages()["request-do.json"]),
}
REASONS = json.loads((FOLDER / "messages" / "refused" / "reasons.json").read_bytes())

#: Values of a type that a rule does not allow.
_OF_ANOTHER_TYPE: dict[str, list[Any]] = {
    "integer": ["1", True, None, 1.5],
    "string": [1, None, ["text"]],
    "object": [["text"], "text", 1],
    "boolean": ["true", 1, None],
}
_WRONG_TIMES = ["today", "2026-11-21T12:01:00", "12:01:00Z"]
_RESULT = {"reference": "P-2047"}
#: Changes of a reply that break the rules of several fields, beside those of the refused examples.
_WRONG_TOGETHER: list[Message] = [
    *({"outcome": outcome, "result": _RESULT} for outcome in ("not_taken", "unknown")),
    {"outcome": "refused", "result": None, "no_result": "why"},
    {"kind": "find", "outcome": "not_done", "result": _RESULT},
]
#: Keywords that are tested below, and those that only describe.
_TESTED = {
    *("required", "type", "enum", "pattern", "format", "anyOf"),
    *("minLength", "maxLength", "minimum", "maximum", "allOf"),
}
_DESCRIBING = {"title", "description", "default", "properties", "examples", "$schema", "$id", "$defs", "$ref"}
#: `true`: an object may have any member.
_DESCRIBING |= {"additionalProperties"}


def _is_valid(kind: str, message: Message) -> bool:
    return jsonschema_rs.validator_for(SCHEMAS[kind], validate_formats=True).is_valid(message)


def _is_read(kind: str, message: Message) -> bool:
    return _fault(kind, json.dumps(message).encode()) is None


def _fault(kind: str, body: bytes) -> str | None:
    """Return why a message is rejected, or its result cannot be recorded."""
    try:
        message = read_message(MODELS[kind], body)
        json_text("result", message.result or {})
    except (MessageError, UnfitValueError) as error:
        return str(error)
    return None


def _wrong_values(rules: Mapping[str, Any]) -> Iterator[Any]:
    """Give values that break one rule of a field each."""
    yield from _OF_ANOTHER_TYPE.get(rules.get("type", ""), ())
    if "enum" in rules:
        yield "sideways"
    if "pattern" in rules:
        yield from ("", "two words", "x" * 65, "ends\n")
    if "format" in rules:
        yield from _WRONG_TIMES
    if "minLength" in rules:
        yield "x" * (rules["minLength"] - 1)
    if "maxLength" in rules:
        yield "x" * (rules["maxLength"] + 1)
    if "minimum" in rules:
        yield rules["minimum"] - 1
    if "maximum" in rules:
        yield rules["maximum"] + 1
    if "anyOf" in rules:
        yield ["neither"]
        yield "neither"


def _rules(schema: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    rules: Mapping[str, Any] = schema["properties"][field]
    reference = rules.get("$ref", "").removeprefix("#/$defs/")
    return rules | schema["$defs"][reference] if reference else rules


def _broken(kind: str) -> Iterator[Message]:
    """Give messages that each break one rule of the schema."""
    schema, base = SCHEMAS[kind], BASES[kind]
    for field in schema["required"]:
        yield {name: value for name, value in base.items() if name != field}
    for field in schema["properties"]:
        for value in _wrong_values(_rules(schema, field)):
            yield base | {field: value}
    for changes in _WRONG_TOGETHER if kind == "reply" else ():
        yield base | changes


@pytest.mark.parametrize("kind", MODELS)
def test_each_rule_of_the_schema_holds_in_the_code(kind: str) -> None:
    """Both reject a message that breaks one of them."""
    broken = list(_broken(kind))
    assert len(broken) > 30
    assert [message for message in broken if _is_valid(kind, message)] == []
    assert [message for message in broken if _is_read(kind, message)] == []


@pytest.mark.parametrize("kind", MODELS)
def test_every_rule_is_tested(kind: str) -> None:
    """A new keyword needs values that break it."""
    schema = SCHEMAS[kind]
    used = {*schema, *(keyword for field in schema["properties"] for keyword in _rules(schema, field))}
    assert used - _TESTED - _DESCRIBING == set()


@pytest.mark.parametrize("name", messages())
def test_example_is_accepted(name: str) -> None:
    """By both. Each refused example has a reason."""
    kind, body = name.partition("-")[0], messages()[name]
    assert _is_valid(kind, json.loads(body))
    assert _fault(kind, body) is None
    assert set(REASONS) == set(messages("refused"))


@pytest.mark.parametrize("name", messages("refused"))
def test_refused_example_is_refused_with_its_reason(name: str) -> None:
    """By the code; by the schema, too, if it is JSON whose numbers are finite."""
    body = messages("refused")[name]
    assert _fault("reply", body) == REASONS[name]
    if "JSON" not in REASONS[name] and "finite" not in REASONS[name]:
        assert not _is_valid("reply", json.loads(body))


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("is_look_up", [False, True])
@pytest.mark.parametrize("do_result", [None, '{"reference":"P-2047"}'])
def test_request_that_we_write_fits_the_schema(
    direction: Direction,
    is_look_up: bool,  # noqa: FBT001 - a table
    do_result: str | None,
) -> None:
    """With each kind of step, and with fractions of a second or without them."""
    for microsecond in (0, 1):
        call = Call(
            task="t-1",
            step="seats.12",
            direction=direction,
            effect_key=f"t-1.3f9a0c27/seats.12/{direction}",
            request='{"seat":"12C"}',
            complete_by=datetime(2026, 11, 21, 12, 1, 0, microsecond, tzinfo=UTC),
            start_id="5f0c3e0a9b7d4c1e8a26d3f4b5c6a7e8",
            epoch=3,
            idempotent=False,
            is_look_up=is_look_up,
            do_result=do_result,
        )
        assert _is_valid("request", json.loads(call.to_request().model_dump_json()))


@pytest.mark.parametrize("kind", RequestKind)
@pytest.mark.parametrize("outcome", ReplyOutcome)
def test_reply_that_we_write_fits_the_schema(kind: RequestKind, outcome: ReplyOutcome) -> None:
    """Each outcome that the code allows with a kind, as it is sent; no other is valid."""
    echoed = {name: BASES["reply"][name] for name in BASES["reply"].keys() - {"outcome", "result"}}
    text = {"result": _RESULT} if outcome is ReplyOutcome.DONE else {"error": "the bank is closed"}
    content = {**echoed, "kind": kind, "outcome": outcome, **text}
    assert _is_valid("reply", content) is _is_read("reply", content)
    if _is_read("reply", content):
        reply = AgentReply.model_validate_json(json.dumps(content))
        assert _is_valid("reply", json.loads(reply.model_dump_json(exclude_defaults=True)))


def test_files_equal_the_code() -> None:
    """They are generated."""
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert written == schema_files(), "run: python -m tests.contract.schemas"
