"""The Service Bus functions of the Agents behind queues that this application serves itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import azure.durable_functions as df
import azure.functions as func

from functions.agents.queued import QueuedAgent
from functions.agents.steps import SPARE_SECONDS
from functions.messages.blueprint import queue_function
from functions.pattern.messages import requests_queue


def queued_agents_blueprint(agents: Iterable[QueuedAgent], *, function_timeout: float) -> df.Blueprint:
    """Register one function for each Agent, on the Agent's own queue.

    A request is tried until its complete-by, at which the Agent lets it go, but never until the host ends the
    function, `function_timeout` seconds after its start: for so long the host renews the request's lock.
    """
    patience = max(function_timeout - SPARE_SECONDS, function_timeout / 2)
    blueprint = df.Blueprint()
    for agent in agents:
        name = f"agent_{agent.name.replace('-', '_')}"
        queue_function(blueprint, name, requests_queue(agent.name), partial(_take, agent), patience=patience)
    return blueprint


async def _take(agent: QueuedAgent, message: func.ServiceBusMessage) -> None:
    await agent.take(message.message_id, message.get_body())
