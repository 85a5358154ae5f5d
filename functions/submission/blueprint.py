"""The submission function: takes messages off the queue, many at a time, and each order by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import List  # noqa: UP035 - the worker library knows a batch by this very annotation

import azure.durable_functions as df
import azure.functions as func

from functions.messages.batch import Batches
from functions.messages.blueprint import CONNECTION
from functions.messages.reading import QueueMessage, content_of, each_order
from functions.pattern.messages import SUBMISSIONS_QUEUE
from functions.pattern.ports import SchedulerStarts
from functions.submission.intake import Intake


def submission_blueprint(
    intake: Intake,
    schedulers_of: Callable[[df.DurableOrchestrationClient], SchedulerStarts],
    batches: Batches,
) -> df.Blueprint:
    """Register the function of the queue `submissions`; `schedulers_of` wraps the Durable client."""
    blueprint = df.Blueprint()

    @blueprint.function_name("submission")
    @blueprint.service_bus_queue_trigger(
        arg_name="messages",
        queue_name=SUBMISSIONS_QUEUE,
        connection=CONNECTION,
        cardinality=func.Cardinality.MANY,
    )
    @blueprint.durable_client_input(client_name="client")
    async def submission(
        messages: List[func.ServiceBusMessage],  # noqa: UP006 - as above
        client: df.DurableOrchestrationClient,
    ) -> None:
        schedulers = schedulers_of(client)
        orders = [order for message in messages for order in each_order(message)]
        await batches.take(orders, partial(_take, intake, schedulers))

    return blueprint


async def _take(intake: Intake, schedulers: SchedulerStarts, message: QueueMessage) -> None:
    await intake.take(message.message_id or "", content_of(message), schedulers)
