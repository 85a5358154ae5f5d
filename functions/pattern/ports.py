"""What the core and its callers need of the outside; adapters are chosen in `wiring.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from functions.pattern.definition import Json
from functions.pattern.identity import EffectKey, Epoch, TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.records import Order, TaskRecord
from functions.pattern.transitions import Event, Refused


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Give the time now, in UTC."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A task's record as it was read or written; `version` guards the next write (an ETag)."""

    record: TaskRecord
    version: str


class Admission(StrEnum):
    """What came of recording an order."""

    #: It is new, and recorded now.
    RECORDED = "recorded"
    #: The same order was recorded before.
    KNOWN = "known"
    #: Another order was recorded under this id before.
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Admitted:
    """An order's admission, and the record that stands under its id."""

    admission: Admission
    stored: Stored


class StateStore(Protocol):
    """The durable record of every task and step: the truth."""

    async def admit(self, record: TaskRecord) -> Admitted:
        """Record a new task in one transaction."""

    async def load(self, task: TaskId) -> Stored | None:
        """Read one task's rows, or None when there is no such task."""

    async def recall(self, task: TaskId) -> Stored | None:
        """Give the record as this process knows it; should it be overtaken, `change` sees to that."""

    async def change(self, stored: Stored, event: Event) -> Stored | Refused:
        """Apply `event` by compare-and-swap, on a fresh read when `stored` has been overtaken."""


class RejectedMessages(Protocol):
    """The record of messages that could not be understood."""

    async def reject(self, queue: str, message_id: str, body: bytes, reason: str) -> None:
        """Keep the message and why it was rejected; the same message is kept once."""


class Submissions(Protocol):
    """The way of an order from the API to the state store."""

    async def submit(self, message: SubmissionMessage, order: Order) -> None:
        """Hand the order over; when this returns, it is durable."""


class Schedulers(Protocol):
    """Starts Scheduler instances."""

    async def start(self, task: TaskId, epoch: Epoch) -> None:
        """Start the instance of this attempt; harmless when it runs already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall:
    """What an Agent gets: what to ask, under which key, and until when."""

    task: TaskId
    effect_key: EffectKey
    request: Json
    complete_by: datetime


class Agent(Protocol):
    """Wraps one remote service."""

    async def do(self, call: AgentCall) -> Mapping[str, Any]:
        """Carry the step out and give its result.

        Raises `PermanentError` when the service refuses for good and `TransientError` when it still
        fails at complete-by.
        """
