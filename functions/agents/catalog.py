"""Which Agent wraps which remote service, and whether the workflows' steps can be done by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from functions.agents.account import AccountAgent
from functions.agents.delivery import DeliveryAgent
from functions.agents.drone import DroneAgent
from functions.agents.package import PackageAgent
from functions.agents.payment import PaymentAgent
from functions.agents.remote import RemoteService
from functions.agents.transport import TransportAgent
from functions.pattern.definition import Step, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.ports import Agent, UndoingAgent
from functions.pattern.states import Way

#: Agents with a way of their own; any other name stands for a service that the REST Agent can call.
AGENTS: Mapping[str, Callable[[RemoteService], Agent]] = {
    "payment": PaymentAgent,
    "account": AccountAgent,
    "package": PackageAgent,
    "transport": TransportAgent,
    "drone": DroneAgent,
    "delivery": DeliveryAgent,
}


def check_agents(workflows: Iterable[Workflow], agents: Mapping[str, Agent]) -> None:
    """Refuse a step that no Agent can do. Raises `DefinitionError`, which names the step and the fix."""
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
