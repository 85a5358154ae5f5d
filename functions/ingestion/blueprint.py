"""The functions of the event hub: one takes its events by batches, one tells how far they are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import List  # noqa: UP035 - the worker library knows a batch by this very annotation

import azure.durable_functions as df
import azure.functions as func

from functions.ingestion.batch import EventBatches
from functions.ingestion.events import events_of
from functions.ingestion.lag import LagReport
from functions.pattern.ports import SchedulerStarts

#: The setting, or the prefix of the settings, that says where Event Hubs is.
CONNECTION = "EventHubConnection"


def ingestion_blueprint(
    hub: str,
    consumer_group: str,
    batches: EventBatches,
    schedulers_of: Callable[[df.DurableOrchestrationClient], SchedulerStarts],
    lag: LagReport,
) -> df.Blueprint:
    """Register the function `ingestion`, which the hub triggers, and the timer `hub_lag`.

    The host writes its checkpoint after each batch, failed or not. So a batch whose service failed is tried
    again for as long as it takes: without that, an outage would lose every batch that it meets.
    """
    blueprint = df.Blueprint()

    @blueprint.function_name("ingestion")
    @blueprint.event_hub_message_trigger(
        arg_name="events",
        event_hub_name=hub,
        connection=CONNECTION,
        consumer_group=consumer_group,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,
    )
    @blueprint.retry(
        strategy="exponential_backoff",
        max_retry_count="-1",
        minimum_interval="00:00:01",
        maximum_interval="00:01:00",
    )
    @blueprint.durable_client_input(client_name="client")
    async def ingestion(
        events: List[func.EventHubEvent],  # noqa: UP006 - as above
        client: df.DurableOrchestrationClient,
    ) -> None:
        if events:
            await batches.take(events_of(events), schedulers_of(client))

    @blueprint.function_name("hub_lag")
    @blueprint.timer_trigger(arg_name="timer", schedule="30 */5 * * * *")  # every five minutes
    async def hub_lag(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host's signature
        await lag.run()

    return blueprint
