"""The Service Bus functions of the Agents behind queues that this application serves itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

import azure.durable_functions as df
import azure.functions as func

from functions.agents.queued import QueuedAgent
from functions.messages.blueprint import queue_function
from functions.pattern.messages import requests_queue

_log = logging.getLogger(__name__)


def queued_agents_blueprint(agents: Iterable[QueuedAgent]) -> df.Blueprint:
    """Register one function for each Agent, on its own queue; the host renews a request's lock meanwhile."""
    blueprint, served = df.Blueprint(), list(agents)
    names = ", ".join(each.name for each in served) or "none"
    _log.info("Agents behind queues that are served here: %s", names)
    for agent in served:
        name = f"agent_{agent.name.replace('-', '_')}"
        queue = requests_queue(agent.name)
        queue_function(blueprint, name, queue, partial(_take, agent), patience=agent.patience)
    return blueprint


async def _take(agent: QueuedAgent, message: func.ServiceBusMessage) -> None:
    await agent.take(message.message_id, message.get_body())
