"""The Durable functions of the Scheduler."""

from __future__ import annotations

import logging
from collections.abc import Generator
from functools import partial
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from functions.messages.redelivery import patiently
from functions.pattern.agent_messages import AGENT_REPLIES_QUEUE
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.messages import SCHEDULER_REQUESTS_QUEUE
from functions.pattern.states import Outcome
from functions.scheduler.claim import Claim, Claimer
from functions.scheduler.orchestrator import (
    CLAIM_ACTIVITY,
    RUN_STEP_ACTIVITY,
    SCHEDULER,
    Attempt,
    Progress,
    Turn,
    run_task,
)
from functions.scheduler.outcomes import StepReport
from functions.scheduler.progress import progress_of
from functions.scheduler.replies import ReplyTaker
from functions.scheduler.requests import RequestTaker
from functions.scheduler.schedulers import DurableSchedulers
from functions.scheduler.step_runner import AgentRunner
from functions.telemetry.messages import message_span

_log = logging.getLogger(__name__)


def scheduler_blueprint(
    claimer: Claimer, runner: AgentRunner, requests: RequestTaker, replies: ReplyTaker
) -> df.Blueprint:
    """Register the orchestrator, its activities, and the functions that take requests and replies for it.

    An activity never raises: what goes wrong inside is logged, and the task is found by its
    complete-by time (the traps of raising activities: Durable SDK 1.7, `task_all` and retries).
    """
    blueprint = df.Blueprint()

    @blueprint.function_name(SCHEDULER)
    @blueprint.orchestration_trigger(context_name="context")
    def scheduler(context: df.DurableOrchestrationContext) -> Generator[Any, Any, str]:
        return run_task(context)

    @blueprint.function_name(CLAIM_ACTIVITY)
    @blueprint.activity_trigger(input_name="attempt")
    async def claim(attempt: Attempt) -> Progress:
        try:
            claimed = await claimer.claim(TaskId(attempt["task"]), Epoch(attempt["epoch"]))
        except Exception:  # noqa: BLE001 - an activity never raises
            _log.exception("task %s: claim failed", attempt["task"])
            claimed = Claim(taken=False)
        return Progress(outcome="claimed" if claimed.taken else "not claimed", ready=list(claimed.ready))

    @blueprint.function_name(RUN_STEP_ACTIVITY)
    @blueprint.activity_trigger(input_name="turn")
    async def run_step(turn: Turn) -> Progress:
        try:
            report = await runner.run(TaskId(turn["task"]), Epoch(turn["epoch"]), StepName(turn["step"]))
        except Exception:  # noqa: BLE001 - an activity never raises
            _log.exception("task %s step %s: failed inside", turn["task"], turn["step"])
            report = StepReport(Outcome.EXPIRED)
        return progress_of(StepName(turn["step"]), report)

    @blueprint.function_name("scheduler_requests")
    @blueprint.service_bus_queue_trigger(
        arg_name="message", queue_name=SCHEDULER_REQUESTS_QUEUE, connection="ServiceBusConnection"
    )
    @blueprint.durable_client_input(client_name="client")
    async def scheduler_requests(
        message: func.ServiceBusMessage, client: df.DurableOrchestrationClient
    ) -> None:
        schedulers = DurableSchedulers(client)
        with message_span(SCHEDULER_REQUESTS_QUEUE, message):
            await patiently(partial(requests.take, message.message_id, message.get_body(), schedulers))

    @blueprint.function_name("agent_replies")
    @blueprint.service_bus_queue_trigger(
        arg_name="message", queue_name=AGENT_REPLIES_QUEUE, connection="ServiceBusConnection"
    )
    @blueprint.durable_client_input(client_name="client")
    async def agent_replies(message: func.ServiceBusMessage, client: df.DurableOrchestrationClient) -> None:
        schedulers = DurableSchedulers(client)
        with message_span(AGENT_REPLIES_QUEUE, message):
            await patiently(partial(replies.take, message.message_id, message.get_body(), schedulers))

    return blueprint
