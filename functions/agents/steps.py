"""Whether Agents can carry out the workflows' steps, and how a step is handed to its Agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.errors import DefinitionError, PermanentError
from functions.pattern.ports import Agent, AgentCall, UndoingAgent
from functions.pattern.states import Direction, Way


async def carry_out(agent: Agent, direction: Direction, call: AgentCall) -> Json:
    """Have the Agent do the step, or undo it. Raises as the Agent does."""
    if direction is Direction.DO:
        return await agent.do(call)
    if not isinstance(agent, UndoingAgent):
        raise PermanentError("its Agent can't undo")
    await agent.undo(call)
    return {}


def check_agents(workflows: Iterable[Workflow], agents: Mapping[str, Agent]) -> None:
    """Refuse steps that no Agent can carry out. Raises `DefinitionError`, which names the step."""
    for workflow in workflows:
        for step in workflow.steps:
            fault = _fault(step, agents.get(step.agent))
            if fault is not None:
                raise DefinitionError(f"workflow '{workflow.name}': step '{step.name}': {fault}")


def _fault(step: Step, agent: Agent | None) -> str | None:
    if agent is None:
        served_elsewhere = step.via is Way.QUEUE
        return None if served_elsewhere else f"no remote service is known for its Agent '{step.agent}'"
    if step.undo and not isinstance(agent, UndoingAgent):
        return f"it has undo, but its Agent '{step.agent}' can't undo"
    return None
