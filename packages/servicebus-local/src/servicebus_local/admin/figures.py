"""What the admin endpoint says about a queue."""

from __future__ import annotations

from collections import Counter

from servicebus_local.broker.clock import now_ms
from servicebus_local.broker.message import MessageState
from servicebus_local.broker.queue import Queue

_COUNTERS = ("sent", "completed", "abandoned", "expired", "locks_expired", "duplicates_dropped")


def queue_figures(queue: Queue) -> dict[str, object]:
    """Return a queue's messages by state, and what was counted since the broker started.

    Active messages include locked ones; the age is that of the oldest active message, in seconds.
    """
    messages = queue.messages.values()
    states = Counter(message.state for message in messages)
    active_since = [message.enqueued_ms for message in messages if message.state is MessageState.ACTIVE]
    figures: dict[str, object] = {
        "name": queue.name,
        "active": states[MessageState.ACTIVE],
        "deferred": states[MessageState.DEFERRED],
        "scheduled": states[MessageState.SCHEDULED],
        "dead_lettered": len(queue.dead_letters.messages),
        "locked": len(queue.locks),
        "oldest_age_seconds": (now_ms() - min(active_since)) / 1000 if active_since else None,
    }
    return figures | {name: queue.counters[name] for name in _COUNTERS}
