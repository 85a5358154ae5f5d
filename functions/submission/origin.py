"""Where an order was taken from, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from functions.pattern.identity import TaskId
from functions.pattern.messages import SUBMISSIONS_QUEUE
from functions.pattern.store_ports import KnownOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a message was: a queue, or an event hub, which gives what it holds again and again.

    `enqueued_at` (UTC) is since when, None for a queue. `known` are orders that were looked up beforehand.
    """

    name: str
    enqueued_at: datetime | None = None
    known: Mapping[TaskId, KnownOrder] = field(default_factory=dict)


#: Where the API puts orders, unless the settings say otherwise.
SUBMISSIONS = Origin(name=SUBMISSIONS_QUEUE)


class Disposition(StrEnum):
    """What became of an order."""

    #: It is new, and recorded now.
    RECORDED = "recorded"
    #: The same order was recorded before.
    KNOWN = "known"
    #: It can't be used, and was set aside.
    REJECTED = "rejected"
    #: Its workflow's version is not here, or its shard is being moved: it comes again, from the queue.
    PUT_BACK = "put back"


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a message, and which task it is, if that could be read."""

    disposition: Disposition
    task: TaskId | None = None
