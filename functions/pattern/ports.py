"""What the core and its callers need of the outside; adapters are chosen in `wiring.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.announcements import Announcement
from functions.pattern.definition import Json
from functions.pattern.events import Event, Refused
from functions.pattern.identity import EffectKey, Epoch, TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.records import Order, TaskRecord
from functions.pattern.states import ProcessState


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

    async def recall(self, task: TaskId, epoch: Epoch) -> Stored | None:
        """Give the record as this process knows it, from `epoch` or later.

        Should it be overtaken, `change` sees to that.
        """

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


class Outbox(Protocol):
    """What has been recorded as to be told, and may not have been."""

    async def untold(self, shard: int, before: datetime, most: int) -> Sequence[Announcement]:
        """Read announcements of a shard that are older than `before`, oldest first."""

    async def told(self, announcement: Announcement) -> None:
        """Forget an announcement that was sent; harmless when it is forgotten already."""


class ChangeAnnouncer(Protocol):
    """Sends what a change has to be followed by."""

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Announce a change that is recorded, or a new task (`before` is None); never raises for it."""


class Announcements(Protocol):
    """Tells callers and operators."""

    async def tell(self, announcement: Announcement) -> None:
        """Send the announcement to the queue it is for. Raises `TransientError`."""


class SchedulerRequests(Protocol):
    """Asks for Schedulers, over a queue."""

    async def request(self, task: TaskId, epoch: Epoch, not_before: datetime | None) -> None:
        """Ask for the Scheduler of this epoch; doubled, it is asked for once. Raises `TransientError`."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index row: which task, and the time in its key (due, or finished).

    `submitted_at` is not known of rows that were written before it was kept.
    """

    task: TaskId
    at: datetime
    workflow: str
    state: ProcessState
    submitted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class IndexPage:
    """Some entries of one shard, and where the next page begins (None: there is none)."""

    entries: tuple[IndexEntry, ...]
    continuation: str | None


class Index(StrEnum):
    """The indexes over all tasks; each task stands in exactly one of them."""

    #: Tasks under way, by the time when the Supervisor must look at them.
    DUE = "!due"
    #: Tasks in `Error`, by the time when they got there.
    ERROR = "!error"
    #: Tasks that are `Processed` or `Compensated`, by the time when they got there.
    DONE = "!done"


class TaskIndex(Protocol):
    """Finds tasks without reading them all."""

    @property
    def shards(self) -> int:
        """Tell how many shards there are; they are numbered from 0."""

    async def page(
        self,
        index: Index,
        shard: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        most: int,
    ) -> IndexPage:
        """Read a page of one shard, oldest first, from `since` up to `until` (excluded): one request."""


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


@runtime_checkable
class UndoingAgent(Agent, Protocol):
    """Wraps a remote service that can undo what it did."""

    async def undo(self, call: AgentCall) -> None:
        """Undo the step, whether or not it was ever done, and keep a late `do` from being done.

        Raises as `do` does. Called only for steps that are defined with `undo`.
        """


class AgentRequests(Protocol):
    """The way to Agents behind queues."""

    async def send(self, agent: str, request: AgentRequest) -> None:
        """Put the request on the Agent's queue, where it lives until complete-by. Raises `TransientError`."""


class AgentReplies(Protocol):
    """The way back from Agents behind queues."""

    async def send(self, reply: AgentReply) -> None:
        """Put the reply on the Schedulers' queue. Raises `TransientError`."""
