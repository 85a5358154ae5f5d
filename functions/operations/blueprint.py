"""The functions on the operators' side: HTTP, alerts, dead letters, backlog, housekeeping."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import azure.durable_functions as df
import azure.functions as func
from fastapi import FastAPI

from functions.messages.redelivery import patiently
from functions.operations.alerts.alerts import Alerts
from functions.operations.alerts.queues import Backlog, DeadLetters, dead_letter_queue
from functions.operations.housekeeping import DurableInstances, Housekeeping
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE
from functions.telemetry.messages import message_span
from functions.web.blueprint import HttpRoute, http_blueprint

#: Every day at half past three (UTC).
_DAILY = "0 30 3 * * *"

_EVERY_FIVE_MINUTES = "0 */5 * * * *"


def operations_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the operators' application; it needs a function key."""
    return http_blueprint(application, HttpRoute("operations", "ops/{*route}", ("GET", "POST")))


def alerts_blueprint(alerts: Alerts) -> df.Blueprint:
    """Register the function that the queue `operator-alerts` triggers."""
    blueprint = df.Blueprint()

    @blueprint.function_name("operator_alert")
    @blueprint.service_bus_queue_trigger(
        arg_name="message", queue_name=OPERATOR_ALERTS_QUEUE, connection="ServiceBusConnection"
    )
    async def operator_alert(message: func.ServiceBusMessage) -> None:
        with message_span(OPERATOR_ALERTS_QUEUE, message):
            await alerts.alert_task(message.get_body())

    return blueprint


def dead_letters_blueprint(dead_letters: DeadLetters, queues: Iterable[str]) -> df.Blueprint:
    """Register a function for the dead-letter queue of each of `queues`."""
    blueprint = df.Blueprint()
    for queue in queues:
        _read_dead_letters(blueprint, dead_letters, queue)
    return blueprint


def _read_dead_letters(blueprint: df.Blueprint, dead_letters: DeadLetters, queue: str) -> None:
    dead = dead_letter_queue(queue)

    @blueprint.function_name(f"dead_letter_{queue.replace('-', '_')}")
    @blueprint.service_bus_queue_trigger(
        arg_name="message", queue_name=dead, connection="ServiceBusConnection"
    )
    async def dead_letter(message: func.ServiceBusMessage) -> None:
        properties = message.application_properties or {}
        taking = partial(dead_letters.take, queue, message.message_id or "", message.get_body(), properties)
        with message_span(dead, message):
            await patiently(taking)


def backlog_blueprint(backlog: Backlog) -> df.Blueprint:
    """Register the timer that logs how long messages have waited."""
    blueprint = df.Blueprint()

    @blueprint.function_name("backlog")
    @blueprint.timer_trigger(arg_name="timer", schedule=_EVERY_FIVE_MINUTES)
    async def log_ages(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host's signature
        await backlog.log_ages()

    return blueprint


def housekeeping_blueprint(housekeeping: Housekeeping, *, schedule: str = _DAILY) -> df.Blueprint:
    """Register the timer; `schedule` (NCRONTAB) says when finished tasks are purged."""
    blueprint = df.Blueprint()

    @blueprint.function_name("housekeeping")
    @blueprint.timer_trigger(arg_name="timer", schedule=schedule)
    @blueprint.durable_client_input(client_name="client")
    async def purge(timer: func.TimerRequest, client: df.DurableOrchestrationClient) -> None:  # noqa: ARG001 - the host's signature
        await housekeeping.run(DurableInstances(client))

    return blueprint
