"""The application's queues as `infra/queues.json` defines them, and the names of sources of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SUBMISSIONS_QUEUE = "submissions"
SCHEDULER_REQUESTS_QUEUE = "scheduler-requests"
AGENT_REPLIES_QUEUE = "agent-replies"
OPERATOR_ALERTS_QUEUE = "operator-alerts"

_DAY_SECONDS = 86_400.0
#: The part of a lock in which a message is handled. The host settles the message in the rest.
_PART_OF_LOCK = 0.75
_DEAD_LETTERS = "/$DeadLetterQueue"
#: The start of the name of an event hub. No queue has this character in its name.
_HUB = "eventhub|"


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """The seconds for which a received message is locked, and after which an unread one expires."""

    lock: float
    time_to_live: float


def requests_queue(agent: str) -> str:
    """Return the name of the queue of an Agent's requests."""
    return f"agent-{agent}-requests"


#: Every queue.
QUEUES: Mapping[str, QueueTimes] = {
    SUBMISSIONS_QUEUE: QueueTimes(60, 14 * _DAY_SECONDS),
    SCHEDULER_REQUESTS_QUEUE: QueueTimes(60, 14 * _DAY_SECONDS),
    requests_queue("payment"): QueueTimes(15, _DAY_SECONDS),
    AGENT_REPLIES_QUEUE: QueueTimes(60, _DAY_SECONDS),
    OPERATOR_ALERTS_QUEUE: QueueTimes(60, 14 * _DAY_SECONDS),
    "notices-demo": QueueTimes(60, _DAY_SECONDS),
}


def handling_seconds(queue: str) -> float:
    """Return the time for one delivery of a message in seconds. `queue` may be a dead-letter queue."""
    return QUEUES[live_queue(queue)].lock * _PART_OF_LOCK


def dead_letter_queue(queue: str) -> str:
    """Return the name of the dead-letter queue of a queue. An event hub has none: return its own name."""
    return queue if queue.startswith(_HUB) else f"{queue}{_DEAD_LETTERS}"


def live_queue(queue: str) -> str:
    """Return the queue to which a dead-letter queue belongs, or the queue itself."""
    return queue.removesuffix(_DEAD_LETTERS)


def hub_source(hub: str) -> str:
    """Return the name of an event hub as the source of messages."""
    return f"{_HUB}{hub}"


def resend_queue(source: str) -> str:
    """Return the queue on which a message of a source is sent again. Events are sent to `submissions`."""
    return SUBMISSIONS_QUEUE if source.startswith(_HUB) else live_queue(source)
