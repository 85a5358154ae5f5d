"""Batches of events as the host hands them over, and the positions of a hub's readers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import azure.functions as func
from azure.functions.eventhub import EventHubTriggerConverter
from azure.functions.meta import Datum

from functions.pattern.errors import TransientError
from functions.pattern.hub_positions import HubPartition
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


class MemoryPositions:
    """A hub's partitions and the checkpoints of its readers."""

    def __init__(self) -> None:
        self.kept: list[HubPartition] = []
        self.taken: dict[str, int] = {}
        self.reads = 0
        self.failing = False

    async def partitions(self) -> Sequence[HubPartition]:
        """Tell what is kept."""
        self._fail_if_set()
        return self.kept

    async def checkpoints(self) -> Mapping[str, int]:
        """Tell what is taken."""
        self._fail_if_set()
        return self.taken

    async def checkpoint(self, partition: str) -> int | None:
        """Tell what is taken of one partition."""
        self.reads += 1
        self._fail_if_set()
        return self.taken.get(partition)

    def _fail_if_set(self) -> None:
        if self.failing:
            raise TransientError("Event Hubs: ConnectError")
