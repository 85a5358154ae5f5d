"""The Durable functions of the Scheduler."""

from __future__ import annotations

import logging
from collections.abc import Generator
from functools import partial
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from functions.messages.blueprint import CONNECTION, process
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.messages import AGENT_REPLIES_QUEUE, SCHEDULER_REQUESTS_QUEUE
from functions.pattern.states import Outcome
from functions.scheduler.claim import Claim, Claimer
from functions.scheduler.orchestrator import (
    CLAIM_ACTIVITY,
    RUN_STEP_ACTIVITY,
    SCHEDULER,
    DurableSchedulers,
    Progress,
    RunStepInput,
    SchedulerInput,
    run_task,
)
from functions.scheduler.outcomes import StepReport
from functions.scheduler.step_runner import StepRunner
from functions.scheduler.takers import ReplyTaker, RequestTaker

_log = logging.getLogger(__name__)


def scheduler_blueprint(
    claimer: Claimer, runner: StepRunner, requests: RequestTaker, replies: ReplyTaker
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
    @blueprint.activity_trigger(input_name="given")
    async def claim(given: SchedulerInput) -> Progress:
        try:
            claimed = await claimer.claim(TaskId(given["task"]), Epoch(given["epoch"]))
        except Exception:  # noqa: BLE001 - an activity never raises
            _log.exception("task %s: claim failed", given["task"])
            claimed = Claim(taken=False)
        return Progress(outcome="claimed" if claimed.taken else "not claimed", ready=list(claimed.ready))

    @blueprint.function_name(RUN_STEP_ACTIVITY)
    @blueprint.activity_trigger(input_name="given")
    async def run_step(given: RunStepInput) -> Progress:
        step = StepName(given["step"])
        try:
            report = await runner.run(TaskId(given["task"]), Epoch(given["epoch"]), step)
        except Exception:  # noqa: BLE001 - an activity never raises
            _log.exception("task %s step %s: failed inside", given["task"], step)
            report = StepReport(Outcome.EXPIRED)
        return report.progress(step)

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
