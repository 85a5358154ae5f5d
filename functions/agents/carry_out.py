"""Has an Agent do a step, or undo it."""

from __future__ import annotations

from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError
from functions.pattern.ports import Agent, AgentCall, UndoingAgent
from functions.pattern.states import Direction


async def carry_out(agent: Agent, direction: Direction, call: AgentCall) -> Json:
    """Have the Agent do the step, or undo it. Raises as the Agent does."""
    if direction is Direction.DO:
        return await agent.do(call)
    if not isinstance(agent, UndoingAgent):
        raise PermanentError("its Agent can't undo")
    await agent.undo(call)
    return {}
