"""Events as the host hands them over, each as a message by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import azure.functions as func
from pydantic import BaseModel, ValidationError

from functions.pattern.identity import TaskId
from functions.pattern.messages import TaskIdField
from functions.telemetry.spans import TRACEPARENT

#: Bytes of an event: as many as a message of the queue has. A hub takes more, which would only be parsed.
MOST_EVENT_BYTES = 192 * 1024

#: Where older clients of Event Hubs put the trace.
_DIAGNOSTIC_ID = "Diagnostic-Id"


#: What the host gives as JSON.
_JSON = frozenset({"PartitionContext", "PropertiesArray"})


class _NamesTask(BaseModel):
    """The one field that tells which order an event is."""

    task_id: TaskIdField


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
        """Name it by its place: the hub gives it none."""
        return f"{self.partition}/{self.sequence}"

    @property
    def is_too_large(self) -> bool:
        """Tell whether it has more bytes than any order."""
        return len(self.body) > MOST_EVENT_BYTES

    @property
    def task(self) -> TaskId | None:
        """Read which task it names; whoever takes it reads all of it."""
        if self.is_too_large:
            return None
        try:
            return _NamesTask.model_validate_json(self.body).task_id
        except ValidationError:
            return None

    def get_body(self) -> bytes:
        """Give the body."""
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
    metadata = events[0].metadata or {}
    return {
        name: json.loads(value) if isinstance(value, str) and name in _JSON else value
        for name, value in metadata.items()
    }


def _there[ValueT](value: ValueT | None) -> ValueT:
    if value is None:
        raise ValueError("the host told no number or time of an event")
    return value


def _carried(properties: object) -> dict[str, Any]:
    carried = dict(properties) if isinstance(properties, dict) else {}
    if TRACEPARENT not in carried and _DIAGNOSTIC_ID in carried:
        carried[TRACEPARENT] = carried[_DIAGNOSTIC_ID]
    return carried
