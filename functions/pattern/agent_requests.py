"""What Agents record of requests that must not be carried out twice; `store/` holds the adapter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from functions.pattern.agent_messages import AgentReply, AgentRequest


@dataclass(frozen=True, slots=True)
class Begun:
    """A request that was begun, by the delivery that asks or by another; and its reply, if there is one."""

    by_us: bool
    reply: AgentReply | None = None


class AgentRequestRows(Protocol):
    """The requests that were begun, by their tokens. Its methods raise `TransientError`."""

    async def begin(self, request: AgentRequest, delivery: str, late: AgentReply | None = None) -> Begun:
        """Record that `delivery` begins the request, if no other has begun it; harmless when repeated.

        Where it is too `late`, record that reply with it: then none begins it.
        """

    async def find(self, request: AgentRequest) -> Begun | None:
        """Look whether another delivery has begun the request."""

    async def replied(self, request: AgentRequest, reply: AgentReply) -> None:
        """Record the reply to a request that was begun."""

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete up to `most` requests whose complete-by lies before that time; give how many."""
