"""A function's input from events: their bodies and the trigger metadata.

Names and kinds are those of the Event Hubs extension. The SDK reads the events' system properties from
`SystemPropertiesArray`, which must be as long as the bodies. Times have no zone: it makes naive datetimes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from functions_local.deliveries import Delivery, json_data, plain_properties, utc_text
from functions_local.protos import TypedData, byte_strings, long_numbers, strings

if TYPE_CHECKING:  # only the trigger imports the client: most apps have none
    from azure.eventhub import EventData

_DATA = "data"


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """The origin of a batch, with the fields of `PartitionContext`."""

    namespace: str
    hub: str
    consumer_group: str
    partition: str


def binding_failure(events: Sequence[EventData]) -> str | None:
    """Return the extension's error text for a batch that it can't bind, or None.

    `EventData.Body` exists for data only: one event with another body fails the whole batch, each time.
    """
    for event in events:
        if event.body_type.value != _DATA:
            return (
                "System.NotSupportedException: the body of the event with the sequence number "
                f"{event.sequence_number} is not data, but an AMQP {event.body_type.value}"
            )
    return None


def delivery_of(
    events: Sequence[EventData], origin: BatchOrigin, *, binary: bool, checkpoints: bool
) -> Delivery:
    """Make the input of a function that takes events; `checkpoints`: a checkpoint follows this batch."""
    bodies = [_body(event) for event in events]
    times = [utc_text(event.enqueued_time) for event in events]
    keys = [_partition_key(event) for event in events]
    metadata = {
        "SystemPropertiesArray": json_data(
            [
                {
                    "SequenceNumber": event.sequence_number,
                    "Offset": event.offset,
                    "PartitionKey": key,
                    "EnqueuedTimeUtc": time,
                }
                for event, key, time in zip(events, keys, times, strict=True)
            ]
        ),
        "PartitionContext": json_data(
            {
                "FullyQualifiedNamespace": origin.namespace,
                "EventHubName": origin.hub,
                "ConsumerGroup": origin.consumer_group,
                "PartitionId": origin.partition,
                "IsCheckpointingAfterInvocation": checkpoints,
            }
        ),
        "PropertiesArray": json_data([plain_properties(event.properties) for event in events]),
        "EnqueuedTimeUtcArray": json_data(times),
        "PartitionKeyArray": strings([key or "" for key in keys]),
        "OffsetArray": strings([event.offset or "" for event in events]),
        "SequenceNumberArray": long_numbers([event.sequence_number or 0 for event in events]),
    }
    return Delivery(_wrapped(bodies, binary=binary), metadata)


def text_as_events(text: str, *, binary: bool) -> Delivery:
    """Make the input of a manual run: one event that was never in a hub."""
    return Delivery(_wrapped([text.encode()], binary=binary), {"SystemPropertiesArray": json_data([{}])})


def _body(event: EventData) -> bytes:
    parts: Any = event.body  # of data: `binding_failure` has checked it
    return b"".join(parts)


def _wrapped(bodies: list[bytes], *, binary: bool) -> TypedData:
    # Without dataType binary, bodies are decoded as text, and bytes that are not UTF-8 are lost, as in Azure.
    return byte_strings(bodies) if binary else strings([body.decode("utf-8", "replace") for body in bodies])


def _partition_key(event: EventData) -> str | None:
    key: Any = event.partition_key  # bytes, whatever its type says; or what a sender's own library wrote
    if isinstance(key, bytes):
        return key.decode("utf-8", "replace")
    return key if isinstance(key, str) else None
