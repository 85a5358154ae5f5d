"""Events as the host passes them, each as a message of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import azure.functions as func

from functions.telemetry.spans import TRACEPARENT

#: The largest event in bytes: as large as a message of the queue. A hub accepts up to 1 MiB.
MOST_EVENT_BYTES = 192 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HubEvent:
    """An event: its `sequence` number in its partition, when the hub got it (UTC), and what it carries."""

    partition: str
    sequence: int
    enqueued_at: datetime
    body: bytes
    application_properties: Mapping[str, Any]
    subject: str | None = None
    label: str | None = None
    correlation_id: str | None = None

    @property
    def message_id(self) -> str:
        """Return partition and sequence number: an event has no id of its own."""
        return f"{self.partition}/{self.sequence}"

    def get_body(self) -> bytes:
        """Return the body."""
        return self.body


def events_of(events: Sequence[func.EventHubEvent]) -> list[HubEvent]:
    """Read a batch; all its events share their metadata."""
    metadata = _metadata(events)
    partition, properties = metadata["PartitionContext"]["PartitionId"], metadata.get("PropertiesArray")
    carried = properties if isinstance(properties, list) else []
    return [
        HubEvent(
            partition=str(partition),
            sequence=_there(each.sequence_number),
            # The worker gives a time without a zone.
            enqueued_at=_there(each.enqueued_time).replace(tzinfo=UTC),
            body=each.get_body(),
            application_properties=_carried(its),
        )
        for each, its in zip_longest(events, carried[: len(events)])
    ]


def _metadata(events: Sequence[func.EventHubEvent]) -> Mapping[str, Any]:
    metadata, as_json = events[0].metadata or {}, {"PartitionContext", "PropertiesArray"}
    return {
        name: json.loads(value) if isinstance(value, str) and name in as_json else value
        for name, value in metadata.items()
    }


def _there[ValueT](value: ValueT | None) -> ValueT:
    if value is None:
        raise ValueError("the host told no number or time of an event")
    return value


def _carried(properties: object) -> dict[str, Any]:
    carried = dict(properties) if isinstance(properties, dict) else {}
    if TRACEPARENT not in carried and "Diagnostic-Id" in carried:
        carried[TRACEPARENT] = carried["Diagnostic-Id"]  # of older clients
    return carried
