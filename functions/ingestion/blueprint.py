"""The function that the event hub triggers."""

from __future__ import annotations

from collections.abc import Callable
from typing import List  # noqa: UP035 - the worker library knows a batch by this very annotation

import azure.durable_functions as df
import azure.functions as func

from functions.ingestion.batch import EventBatches, events_of
from functions.pattern.ports import SchedulerStarts


def ingestion_blueprint(
    hub: str,
    consumer_group: str,
    batches: EventBatches,
    schedulers_of: Callable[[df.DurableOrchestrationClient], SchedulerStarts],
) -> df.Blueprint:
    """Register the function `ingestion`; endless retries keep the checkpoint before a batch that fails."""
    blueprint = df.Blueprint()

    @blueprint.function_name("ingestion")
    @blueprint.event_hub_message_trigger(
        arg_name="events",
        event_hub_name=hub,
        connection="EventHubConnection",
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

    return blueprint
