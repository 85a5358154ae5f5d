"""Whether Agents can carry out the workflows' steps, and how a step is handed to its Agent."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import assert_never

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.errors import DefinitionError, PermanentError
from functions.pattern.messages import requests_queue
from functions.pattern.ports import Agent, AgentCall, UndoingAgent
from functions.pattern.states import Direction, Way

#: What a function needs of its time beside its Agent's call: to read the task, and to record the outcome.
SPARE_SECONDS = 30

_log = logging.getLogger(__name__)


async def carry_out(agent: Agent, direction: Direction, call: AgentCall) -> Json:
    """Have the Agent do the step, or undo it. Raises as the Agent does."""
    if direction is Direction.DO:
        return await agent.do(call)
    if not isinstance(agent, UndoingAgent):
        raise PermanentError("its Agent can't undo")
    await agent.undo(call)
    return {}


def check_agents(
    workflows: Iterable[Workflow],
    agents: Mapping[str, Agent],
    *,
    queues: Mapping[str, float],
    function_timeout: float,
    runs_activities: bool = True,
) -> None:
    """Refuse steps that no Agent can carry out. Raises `DefinitionError`, which names the step and the fix.

    `queues` are all queues with their locks in seconds; `function_timeout` is in seconds. The Agents of
    activities must be known only where the application `runs_activities`.
    """
    for workflow in workflows:
        for warning in lock_warnings([workflow], queues):
            _log.warning("%s", warning)
        for step in workflow.steps:
            fault = _way_fault(step, queues, function_timeout) or _agent_fault(
                step, agents.get(step.agent), is_needed=runs_activities and step.via is Way.ACTIVITY
            )
            if fault is not None:
                raise DefinitionError(f"workflow '{workflow.name}': step '{step.name}': {fault}")


def _way_fault(step: Step, queues: Collection[str], function_timeout: float) -> str | None:
    match step.via:
        case Way.ACTIVITY:
            most = function_timeout - SPARE_SECONDS
            if step.complete_within <= most:
                return None
            return (
                f"complete_within is {step.complete_within:g} seconds, but an activity has {most:g}"
                " (functionTimeout less 30): shorten it, or reach its Agent by Way.QUEUE"
            )
        case Way.QUEUE:
            queue = requests_queue(step.agent)
            if queue in queues:
                return None
            return (
                f"there is no queue '{queue}' for its requests: add it to infra/queues.json, and to QUEUES in"
                " functions/messages/queues.py"
            )
        case Way.EVENT | Way.TIMER | Way.WORKFLOW:
            return None
        case _:
            assert_never(step.via)


def _agent_fault(step: Step, agent: Agent | None, *, is_needed: bool) -> str | None:
    if agent is None:
        return f"no remote service is known for its Agent '{step.agent}'" if is_needed else None
    if step.undo and not isinstance(agent, UndoingAgent):
        return f"it has undo, but its Agent '{step.agent}' can't undo"
    return None


def lock_warnings(workflows: Iterable[Workflow], locks: Mapping[str, float]) -> Iterator[str]:
    """Name the steps that have too little time for a crash; `locks` are in seconds, by queue."""
    for workflow in workflows:
        for step in workflow.steps:
            queue = requests_queue(step.agent)
            # One lock may pass until the request comes again; as much must be left for the work.
            if step.via is Way.QUEUE and queue in locks and step.complete_within < 2 * locks[queue]:
                yield (
                    f"workflow '{workflow.name}': step '{step.name}': complete_within is"
                    f" {step.complete_within:g} seconds, less than twice the lock of '{queue}'"
                    f" ({locks[queue]:g} seconds): a request that a crash interrupts comes again too late"
                )
