"""What is asked of Agents, and what they record of it."""

from __future__ import annotations

from datetime import datetime

from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.agent_requests import Begun
from functions.pattern.definition import Json
from functions.pattern.errors import TransientError
from functions.pattern.identity import EffectKey, TaskId
from functions.pattern.ports import AgentCall

KEY = EffectKey("task-1/payment/do")


def agent_call(
    complete_by: datetime, *, idempotent: bool = True, complete_within: float | None = None
) -> AgentCall:
    """Return a call for a task's payment."""
    return AgentCall(
        task=TaskId("task-1"),
        effect_key=KEY,
        request={"amount": "4.90"},
        complete_by=complete_by,
        idempotent=idempotent,
        complete_within=complete_within,
    )


class OneWayAgent:
    """Can't undo."""

    async def do(self, call: AgentCall) -> Json:  # noqa: ARG002 - an Agent's interface
        """Do it."""
        return {}


class MemoryAgentRequests:
    """The Agents' own rows, in memory; the next `failures` calls fail, `begin` after it has written."""

    def __init__(self) -> None:
        self.begun: dict[str, str] = {}
        self.replies: dict[str, AgentReply] = {}
        self.failures = 0

    async def begin(self, request: AgentRequest, delivery: str, late: AgentReply | None = None) -> Begun:
        """Record who begins it first, and that it is too late for that."""
        is_new = request.token not in self.begun
        by = self.begun.setdefault(request.token, delivery)
        if is_new and late is not None:
            self.replies[request.token] = late
        self._answer()
        return Begun(by == delivery, self.replies.get(request.token))

    async def find(self, request: AgentRequest) -> Begun | None:
        """Look who has begun it."""
        self._answer()
        begun = request.token in self.begun
        return Begun(by_us=False, reply=self.replies.get(request.token)) if begun else None

    async def replied(self, request: AgentRequest, reply: AgentReply) -> None:
        """Record the reply."""
        self._answer()
        self.replies[request.token] = reply

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete nothing: tests with this double do not check ages."""
        raise NotImplementedError(before, most)

    def _answer(self) -> None:
        if self.failures:
            self.failures -= 1
            raise TransientError("no store")
