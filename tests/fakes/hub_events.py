"""Batches of events as the host passes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import azure.functions as func
from azure.functions.eventhub import EventHubTriggerConverter
from azure.functions.meta import Datum

from tests.fakes.clock import START


class _Bodies:
    """Bodies as they come from the host."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self.bytes = bodies


def batch(
    *bodies: bytes,
    partition: str = "3",
    first: int = 0,
    enqueued_at: datetime = START,
    properties: Sequence[Mapping[str, Any]] | None = None,
) -> list[func.EventHubEvent]:
    """Make a batch of one partition, numbered from `first`, by the worker's own converter."""
    time = enqueued_at.replace(tzinfo=None).isoformat()
    system = [
        {
            "SequenceNumber": first + index,
            "Offset": str(100 * index),
            "PartitionKey": None,
            "EnqueuedTimeUtc": time,
        }
        for index in range(len(bodies))
    ]
    context = {"PartitionId": partition, "EventHubName": "order-events", "ConsumerGroup": "ingestion"}
    metadata = {
        "SystemPropertiesArray": Datum(json.dumps(system), "json"),
        "PartitionContext": Datum(json.dumps(context), "json"),
        "PropertiesArray": Datum(json.dumps(properties or [{}] * len(bodies)), "json"),
    }
    data = Datum(_Bodies(bodies), "collection_bytes")
    events = EventHubTriggerConverter.decode(data, trigger_metadata=metadata)
    assert isinstance(events, list)
    return events
