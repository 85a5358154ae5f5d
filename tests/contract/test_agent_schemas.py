"""The schemas of the Agents' messages say what the code does: each of their rules is tried on both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import pytest

from functions.messages.reading import NotAMessageError, read_message
from functions.pattern.agent_messages import AgentReply, AgentRequest
from tests.contract.schemas import FOLDER, messages

type Message = Mapping[str, Any]

MODELS: dict[str, type[AgentReply | AgentRequest]] = {"reply": AgentReply, "request": AgentRequest}
SCHEMAS = {name: json.loads((FOLDER / f"agent-{name}.schema.json").read_bytes()) for name in MODELS}
BASES = {
    "reply": json.loads(messages()["reply-completed.json"]),
    "request": json.loads(messages()["request-do.json"]),
}
REASONS = json.loads((FOLDER / "messages" / "refused" / "reasons.json").read_bytes())

#: Values of other types than a rule asks for.
_OF_ANOTHER_TYPE: dict[str, list[Any]] = {
    "integer": ["1", True, None, 1.5],
    "string": [1, None, ["text"]],
    "object": [["text"], "text", 1],
    "boolean": ["true", 1, None],
}
#: Times that are written in other ways, or of years that no row can hold.
_WRONG_TIMES = [
    *("today", "2026-11-21T12:01:00", "1700000000", "2026-11-21 12:01:00Z", "2026-11-21T12:01Z"),
    *("2026-11-21T12:01:00+0100", "2026-11-21T12:01:00,5Z", "2026-11-21t12:01:00z", "0001-11-21T12:01:00Z"),
]
#: Keywords that are tried below, and those that only describe.
_TRIED = {
    *("required", "additionalProperties", "type", "enum", "pattern", "format", "anyOf"),
    *("minLength", "maxLength", "minimum", "maximum", "allOf"),
}
_DESCRIBING = {"title", "description", "default", "properties", "examples", "$schema", "$id", "$defs", "$ref"}


def _is_valid(kind: str, message: Message) -> bool:
    return jsonschema_rs.validator_for(SCHEMAS[kind], validate_formats=True).is_valid(message)


def _is_read(kind: str, message: Message) -> bool:
    try:
        read_message(MODELS[kind], json.dumps(message).encode())
    except NotAMessageError:
        return False
    return True


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
    if schema.get("additionalProperties") is False:
        yield base | {"more": 1}
    for rule in schema.get("allOf", ()):
        plain = {name: value for name, value in base.items() if name != "result"}
        given = {name: each.get("const", "text") for name, each in rule["if"]["properties"].items()}
        [(beside, limit)] = rule["then"]["properties"].items()
        yield plain | given | {beside: {"text": 1} if "maxProperties" in limit else "text"}


@pytest.mark.parametrize("kind", MODELS)
def test_each_rule_of_the_schema_holds_in_the_code(kind: str) -> None:
    """What the schema refuses, the code refuses."""
    broken = list(_broken(kind))
    assert len(broken) > 30
    assert [message for message in broken if _is_valid(kind, message)] == []
    assert [message for message in broken if _is_read(kind, message)] == []


@pytest.mark.parametrize("kind", MODELS)
def test_every_rule_is_tried(kind: str) -> None:
    """Whoever adds one of another sort has to add how it is broken."""
    schema = SCHEMAS[kind]
    used = {*schema, *(keyword for field in schema["properties"] for keyword in _rules(schema, field))}
    assert used - _TRIED - _DESCRIBING == set()


@pytest.mark.parametrize("name", messages())
def test_example_is_taken(name: str) -> None:
    """By both."""
    kind, body = name.partition("-")[0], messages()[name]
    assert _is_valid(kind, json.loads(body))
    read_message(MODELS[kind], body)


@pytest.mark.parametrize("name", messages("refused"))
def test_refused_example_is_refused_with_its_reason(name: str) -> None:
    """By the code; by the schema too, where it is JSON that can be a matter of one."""
    body = messages("refused")[name]
    with pytest.raises(NotAMessageError) as refusal:
        read_message(AgentReply, body)
    assert str(refusal.value) == REASONS[name]
    if refusal.value.faults[0].kind.isidentifier():
        assert not _is_valid("reply", json.loads(body))


def test_each_refused_example_has_a_reason() -> None:
    """And each reason an example."""
    assert set(REASONS) == set(messages("refused"))


@pytest.mark.parametrize("kind", MODELS)
def test_schema_names_its_version(kind: str) -> None:
    """By an id of its own, so that a copy is known."""
    assert SCHEMAS[kind]["$id"] == f"urn:scheduler-agent-supervisor:agent-{kind}:1"
