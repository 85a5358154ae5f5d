"""What the kit hears of the Agent: each reply as it was written, and what is wrong with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from functions.messages.reading import NotAMessageError
from functions.pattern.agent_messages import ECHOED, AgentRequest
from functions.scheduler.refused_replies import read_reply


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
        read_reply(body)
    except NotAMessageError as error:
        return str(error)
    return None


def not_echoed(content: dict[str, Any], request: AgentRequest) -> list[str]:
    """Name what a reply does not repeat of its request, of the same type; no token is shown."""
    expected = request.model_dump(mode="json")
    return [
        f"{name} {'differs from its request' if name in content else 'is missing'}"
        for name in ECHOED
        if json.dumps(content.get(name)) != json.dumps(expected[name])
    ]
