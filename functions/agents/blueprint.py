"""The Service Bus functions of the Agents behind queues that this application serves itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import azure.durable_functions as df
import azure.functions as func

from functions.agents.queued import QueuedAgent
from functions.messages.redelivery import patiently
from functions.pattern.messages import requests_queue
from functions.telemetry.messages import message_span


def queued_agents_blueprint(agents: Iterable[QueuedAgent]) -> df.Blueprint:
    """Register one function for each Agent, on the Agent's own queue."""
    blueprint = df.Blueprint()
    for agent in agents:
        _register(blueprint, agent)
    return blueprint


def _register(blueprint: df.Blueprint, agent: QueuedAgent) -> None:
    queue = requests_queue(agent.name)

    @blueprint.function_name(f"agent_{agent.name.replace('-', '_')}")
    @blueprint.service_bus_queue_trigger(
        arg_name="message", queue_name=queue, connection="ServiceBusConnection"
    )
    async def take(message: func.ServiceBusMessage) -> None:
        with message_span(queue, message):
            await patiently(partial(agent.take, message.message_id, message.get_body()))
