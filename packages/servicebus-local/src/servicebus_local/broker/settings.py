"""The settings of a queue."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1024 * 1024
#: Names of queues that can be deployed to Service Bus.
QUEUE_NAME = r"^[A-Za-z0-9]([A-Za-z0-9._/-]{0,258}[A-Za-z0-9])?$"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue's properties, with the defaults of Service Bus. Durations in milliseconds."""

    lock_ms: int = 60_000
    max_delivery_count: int = 10
    #: None: messages do not expire unless their sender sets a time to live.
    time_to_live_ms: int | None = None
    dead_letters_expired: bool = False
    #: None: no duplicate detection.
    duplicate_window_ms: int | None = None
    max_bytes: int = 1024 * MEGABYTE
