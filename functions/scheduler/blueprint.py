"""The Durable functions of the Scheduler."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from functions.messages.blueprint import CONNECTION, process
from functions.pattern.messages import AGENT_REPLIES_QUEUE, SCHEDULER_REQUESTS_QUEUE
from functions.scheduler.orchestrator import RUN_STEPS_ACTIVITY, SCHEDULER, DurableSchedulers, run_task
from functions.scheduler.progress import Progress, RunInput
from functions.scheduler.run_steps import RunSteps
from functions.scheduler.takers import ReplyTaker, RequestTaker


def scheduler_blueprint(runs: RunSteps, requests: RequestTaker, replies: ReplyTaker) -> df.Blueprint:
    """Register the orchestrator, its activity, and the functions that take requests and replies for it."""
    blueprint = df.Blueprint()

    @blueprint.function_name(SCHEDULER)
    @blueprint.orchestration_trigger(context_name="context")
    def scheduler(context: df.DurableOrchestrationContext) -> Generator[Any, Any, str]:
        return run_task(context)

    @blueprint.function_name(RUN_STEPS_ACTIVITY)
    @blueprint.activity_trigger(input_name="given")
    async def run_steps(given: RunInput) -> Progress:
        return await runs.run(given)

    _register_taker(blueprint, "scheduler_requests", SCHEDULER_REQUESTS_QUEUE, requests)
    _register_taker(blueprint, "agent_replies", AGENT_REPLIES_QUEUE, replies)
    return blueprint


def _register_taker(blueprint: df.Blueprint, name: str, queue: str, taker: RequestTaker | ReplyTaker) -> None:
    """Register the function that takes the messages of one queue."""

    @blueprint.function_name(name)
    @blueprint.service_bus_queue_trigger(arg_name="message", queue_name=queue, connection=CONNECTION)
    @blueprint.durable_client_input(client_name="client")
    async def take(message: func.ServiceBusMessage, client: df.DurableOrchestrationClient) -> None:
        schedulers = DurableSchedulers(client)
        work = partial(taker.take, message.message_id, message.get_body(), schedulers)
        await process(queue, message, work)
