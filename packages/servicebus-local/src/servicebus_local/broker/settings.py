"""What can be set for a queue."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue's properties, with the defaults of Service Bus. Durations in milliseconds."""

    lock_ms: int = 60_000
    max_delivery_count: int = 10
    #: None: messages live for ever unless their sender says otherwise.
    time_to_live_ms: int | None = None
    dead_letters_expired: bool = False
    #: None: a message id may come again.
    duplicate_window_ms: int | None = None
    #: None: the queue stays.
    auto_delete_idle_ms: int | None = None
    max_bytes: int = 1024 * MEGABYTE


@dataclass(frozen=True, slots=True)
class AutoCreateRule:
    """Queues whose names match a shell pattern are made when somebody first asks for them."""

    pattern: str
    settings: QueueSettings
