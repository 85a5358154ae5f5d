"""The queues and their properties, and the names of sources of messages.

`make queues` writes `infra/queues.json` from this module and from the workflows' definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
class QueueProperties:
    """The properties of a queue.

    `lock` is the time for which a received message is locked, and `time_to_live` the time after which an
    unread one expires, in seconds. An expired message is a dead letter if `keeps_expired`. With
    `drops_copies`, the bus drops a message whose id was sent in the ten minutes before.
    """

    lock: float = 60
    time_to_live: float = 14 * _DAY_SECONDS
    keeps_expired: bool = True
    drops_copies: bool = False


def requests_queue(agent: str) -> str:
    """Return the name of the queue of an Agent's requests."""
    return f"agent-{agent}-requests"


#: An expired request needs no dead letter, because the Supervisor recovers its step.
_AGENT_REQUESTS = QueueProperties(lock=15, time_to_live=_DAY_SECONDS, keeps_expired=False)
#: The queues of the application. Add `requests_queue(…)` of an Agent whose queue has other properties.
QUEUES: Mapping[str, QueueProperties] = {
    SUBMISSIONS_QUEUE: QueueProperties(),
    SCHEDULER_REQUESTS_QUEUE: QueueProperties(drops_copies=True),
    AGENT_REPLIES_QUEUE: QueueProperties(time_to_live=_DAY_SECONDS),
    OPERATOR_ALERTS_QUEUE: QueueProperties(drops_copies=True),
    "notices-demo": QueueProperties(time_to_live=_DAY_SECONDS, keeps_expired=False),
}


def properties_of(queue: str) -> QueueProperties:
    """Return the properties of a queue; `queue` may be that of any Agent."""
    return QUEUES.get(queue, _AGENT_REQUESTS)


def all_queues(agents: Iterable[str]) -> list[str]:
    """Return the names of all queues; `agents` are the Agents behind queues."""
    return list(dict.fromkeys([*QUEUES, *map(requests_queue, sorted(agents))]))


def handling_seconds(queue: str) -> float:
    """Return the time for one delivery of a message in seconds. `queue` may be a dead-letter queue."""
    return properties_of(live_queue(queue)).lock * _PART_OF_LOCK


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
