"""What the kit hears of the Agent: each reply as it was written, and what is wrong with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from functions.core.json_values import UnfitValueError, json_text
from functions.messaging.agent_messages import (
    AgentReply,
    AgentRequest,
    RequestKind,
)
from functions.messaging.message_format import MessageError, read_message

#: The fields that a reply echoes; a reply without a kind is one to carry out.
_ECHOED = ("schema_version", "task_id", "step", "direction", "epoch", "start_id", "kind")


@dataclass(frozen=True, slots=True)
class HeardReply:
    """A reply, as the Agent wrote it."""

    content: dict[str, Any]

    @property
    def outcome(self) -> object:
        """What it tells."""
        return self.content.get("outcome")

    @property
    def result(self) -> str:
        """Its result, as text that can be compared."""
        return json.dumps(self.content.get("result") or {}, sort_keys=True)


def content_of(body: bytes) -> dict[str, Any]:
    """Read a reply as far as it can be read."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def misfit(body: bytes) -> str | None:
    """Tell why the application would refuse a reply; None when it fits."""
    try:
        if result := content_of(body).get("result"):
            json_text("result", result)
        read_message(AgentReply, body)
    except (MessageError, UnfitValueError) as error:
        return str(error)
    return None


def not_echoed(content: dict[str, Any], request: AgentRequest) -> list[str]:
    """Name what a reply does not repeat of its request, of the same type; no start id is shown."""
    expected = request.model_dump(mode="json")
    content = {"kind": RequestKind.CARRY_OUT} | content
    return [
        f"{name} {'differs from its request' if name in content else 'is missing'}"
        for name in _ECHOED
        if json.dumps(content.get(name)) != json.dumps(expected[name])
    ]
