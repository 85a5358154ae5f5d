"""The schemas of the Agents' messages, as files: `python -m tests.contract.schemas` rewrites them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.json_schema import JsonSchemaMode

from functions.messaging.agent_messages import AgentReply, AgentRequest
from tests.house.documents import ROOT, code_blocks

FOLDER = ROOT / "docs" / "schemas"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_IS_LOOK_UP = {"properties": {"kind": {"const": "find"}}, "required": ["kind"]}
_IS_DONE = {"properties": {"outcome": {"const": "done"}}}
_HAS_RESULT = {"properties": {"result": {"minProperties": 1}}, "required": ["result"]}
_NO_TEXT = {"maxLength": 0}
#: The rules of a reply that concern several fields. `AgentReply` checks them in a validator.
_RULES_OF_REPLY = [
    {
        "if": _IS_LOOK_UP,
        "then": {"properties": {"outcome": {"enum": ["done", "not_done", "unknown"]}}},
        "else": {
            "properties": {
                "outcome": {"enum": ["done", "refused", "not_taken", "unknown"]},
                "fences_starts": {"const": False},
            }
        },
    },
    {
        "if": _IS_DONE,
        "then": {"properties": {"error": _NO_TEXT}},
        "else": {"properties": {"result": {"maxProperties": 0}, "no_result": _NO_TEXT}},
    },
    {"if": _HAS_RESULT, "then": {"properties": {"no_result": _NO_TEXT}}},
]


def examples() -> tuple[list[Any], list[Any]]:
    """Return the requests and the replies that `docs/agents.md` shows."""
    shown = [json.loads(block.text) for block in code_blocks("docs/agents.md") if block.language == "json"]
    return [each for each in shown if "request" in each], [each for each in shown if "outcome" in each]


def schema_files() -> Mapping[str, str]:
    """Return the text of each file by name: the request as we write it, the reply as we read it."""
    requests, replies = examples()
    return {
        "agent-request.schema.json": _schema("agent-request", AgentRequest, "serialization", requests),
        "agent-reply.schema.json": _schema("agent-reply", AgentReply, "validation", replies, _RULES_OF_REPLY),
    }


def messages(folder: str = "") -> Mapping[str, bytes]:
    """Return the examples for tests of other teams by name, of a folder beside the schemas."""
    files = sorted((FOLDER / "messages" / folder).glob("re*-*.json"))
    return {path.name: path.read_bytes() for path in files}


def _schema(
    name: str,
    model: type[AgentRequest | AgentReply],
    mode: JsonSchemaMode,
    shown: list[Any],
    rules: Sequence[Mapping[str, Any]] = (),
) -> str:
    identity = {"$schema": _DIALECT, "$id": f"urn:scheduler-agent-supervisor:{name}:1"}
    all_of = {"allOf": list(rules)} if rules else {}
    schema = identity | model.model_json_schema(mode=mode) | all_of | {"examples": shown}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in schema_files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
