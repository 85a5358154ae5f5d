"""The functions on the operators' side: HTTP, alerts, dead letters, backlog, old rows; and housekeeping."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import azure.durable_functions as df
import azure.functions as func

from functions.messages.blueprint import queue_function
from functions.messages.queues import QUEUES, dead_letter_queue
from functions.operations.alerts.alerts import Alerts
from functions.operations.alerts.queues import DeadLetters
from functions.operations.backlog import Backlog
from functions.operations.housekeeping import Housekeeping, OldRows, purge_durable_instance
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE
from functions.pattern.ports import Ports
from functions.web.blueprint import HttpRoute, http_blueprint

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def operations_blueprint(
    make: Callable[[], ASGIApp], alerts: Alerts, ports: Ports, old: OldRows, waiting: Backlog
) -> df.Blueprint:
    """Register the operators' application, which needs a function key, and what queues and timers trigger."""
    blueprint = http_blueprint(make, HttpRoute("operations", "ops/{*route}", ("GET", "POST")))

    async def alert(message: func.ServiceBusMessage) -> None:
        await alerts.alert_task(message.get_body())

    # The webhook has retries of its own.
    queue_function(blueprint, "operator_alert", OPERATOR_ALERTS_QUEUE, alert, again=False)
    dead_letters = DeadLetters(ports, alerts)
    for queue in QUEUES:
        name, take = f"dead_letter_{queue.replace('-', '_')}", partial(dead_letters.take, queue)
        queue_function(blueprint, name, dead_letter_queue(queue), take)

    @blueprint.function_name("backlog")
    @blueprint.timer_trigger(arg_name="timer", schedule="*/15 * * * * *")
    async def backlog(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host's signature
        await waiting.run()

    @blueprint.function_name("old_rows")
    @blueprint.timer_trigger(arg_name="timer", schedule="45 */5 * * * *")  # every five minutes
    async def old_rows(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host's signature
        await old.run()

    return blueprint


def housekeeping_blueprint(housekeeping: Housekeeping) -> df.Blueprint:
    """Register the timer that purges tasks with their Scheduler instances: it needs the Durable client."""
    blueprint = df.Blueprint()

    @blueprint.function_name("housekeeping")
    @blueprint.timer_trigger(arg_name="timer", schedule="15 */5 * * * *")  # not together with a sweep
    @blueprint.durable_client_input(client_name="client")
    async def purge(timer: func.TimerRequest, client: df.DurableOrchestrationClient) -> None:  # noqa: ARG001 - the host's signature
        await housekeeping.run(partial(purge_durable_instance, client))

    return blueprint
