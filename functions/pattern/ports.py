"""What the core and its callers need of the outside; adapters are chosen in `wiring.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.agent_requests import AgentRequestRows
from functions.pattern.announcements import Announcement
from functions.pattern.definition import Json
from functions.pattern.identity import (
    EffectKey,
    Epoch,
    ResourceId,
    StepName,
    TaskId,
    resource_of,
)
from functions.pattern.index_rows import IndexRows
from functions.pattern.intake import Line
from functions.pattern.messages import SubmissionMessage
from functions.pattern.occurrences import TaskCounter
from functions.pattern.records import Task
from functions.pattern.rejected import Postbox, RejectedMessages
from functions.pattern.retry import Retry
from functions.pattern.shared_rows import BreakerRows, Heartbeats, SharedContent, Times
from functions.pattern.store_ports import Outbox, StateStore, TaskIndex, TaskRetention


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Give the time now, in UTC."""


class Submissions(Protocol):
    """The way of an order from the API to the state store."""

    async def submit(self, message: SubmissionMessage) -> None:
        """Hand the order over; when this returns, it is durable. Raises `TransientError`."""

    async def submit_all(
        self, messages: Sequence[SubmissionMessage], traces: Sequence[str | None] = ()
    ) -> Sequence[BaseException | None]:
        """Hand over orders of one workflow, in few messages; tell of each why it may not be durable.

        `traces` has the W3C `traceparent` of each, or nothing.
        """


class Announcements(Protocol):
    """Sends notices to callers and alerts to operators."""

    async def send(self, announcement: Announcement) -> None:
        """Send the announcement to the queue it is for. Raises `TransientError`."""


class SchedulerRequests(Protocol):
    """Asks for Schedulers, over a queue."""

    async def request(self, task: Task, queued: Sequence[StepName]) -> None:
        """Ask for the Scheduler of the task's epoch and run; a repeat is dropped. Raises `TransientError`.

        `queued` are the steps of which something comes from outside.
        """

    async def wake(self, task: Task, step: StepName) -> None:
        """Have the Scheduler that holds the task hear of a step's end. Raises `TransientError`."""


class SchedulerStarts(Protocol):
    """Starts Scheduler instances, by task, epoch and run. Its methods raise `TransientError`."""

    async def start(
        self, task: TaskId, epoch: Epoch, queued: Sequence[StepName], *, run: int | None = None
    ) -> None:
        """Start the instance of this run; harmless when it runs already.

        It awaits the replies and events of the steps `queued`.
        """


class Schedulers(SchedulerStarts, Protocol):
    """Scheduler instances, which hear of what comes from outside, too."""

    async def wake(
        self,
        task: TaskId,
        epoch: Epoch,
        step: StepName,
        progress: Mapping[str, Any],
        *,
        run: int | None = None,
        dispatch: int = 1,
    ) -> None:
        """Send the instance what a reply to `step`, or its event, brought; harmless when it has ended.

        The reply is to that `dispatch` of the step in its epoch.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall:
    """What an Agent gets: what to ask, under which key, and until when.

    What is not `idempotent` is sent to the remote service once; an undo always is idempotent. For an undo,
    `result` is what the do gave, None where that is unknown. What has less time until `complete_by` than the
    step's own, `complete_within` seconds, was late before its Agent began.
    """

    task: TaskId
    effect_key: EffectKey
    request: Json
    complete_by: datetime
    idempotent: bool = True
    result: Json | None = None
    complete_within: float | None = None
    #: How it is made again; None is what the settings say.
    retry: Retry | None = None
    #: Is told of each call of the remote service that failed, and is made again.
    failed: Callable[[Exception], Awaitable[None]] | None = field(default=None, repr=False, compare=False)

    @property
    def resource(self) -> ResourceId:
        """Name what the task makes at the service; a task id alone may have been another task's."""
        return resource_of(self.effect_key)


class Agent(Protocol):
    """Wraps one remote service."""

    async def do(self, call: AgentCall) -> Mapping[str, Any]:
        """Give the step's result.

        Raises `PermanentError` when refused, and `TransientError` when the outcome is unknown: at
        complete-by, or as soon as the one request of a call that is not idempotent got no clear answer.
        """


@runtime_checkable
class UndoingAgent(Agent, Protocol):
    """Wraps a remote service that can undo what it did."""

    async def undo(self, call: AgentCall) -> None:
        """Undo the step, done or not, and keep a late `do` from being done. Raises as `do` does."""


@runtime_checkable
class ReadingAgent(Agent, Protocol):
    """Wraps a remote service whose answers become results only if they have a certain form."""

    def read(self, answer: Json) -> Json:
        """Give the step's result; an operator's is read like the service's. Raises `UnusableAnswerError`."""


class AgentMessages(Protocol):
    """The way to Agents behind queues, and back. Its methods raise `TransientError`."""

    async def ask(self, agent: str, request: AgentRequest) -> None:
        """Put the request on the Agent's queue, where it lives until complete-by."""

    async def reply(self, reply: AgentReply) -> None:
        """Put the reply on the Schedulers' queue."""


@dataclass(frozen=True, slots=True)
class Pile:
    """`count` messages, or `more`, besides `scheduled` ones; the oldest was enqueued at `oldest_at` (UTC)."""

    count: int
    more: bool
    oldest_at: datetime | None
    scheduled: int = 0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """One queue and its dead letters; None is what could not be looked at."""

    queue: str
    waiting: Pile | None
    dead: Pile | None


class Queues(Protocol):
    """The queues, from outside."""

    async def depths(self) -> Sequence[QueueDepth]:
        """Look at every queue, in a few seconds at most; never raises for one that can't be seen."""


class WaitingLine(Protocol):
    """The queue of orders that wait to be recorded, from outside."""

    async def look(self) -> Line:
        """Tell how many wait, and since when. Raises `TransientError`."""


class MinuteCounts(Protocol):
    """Counts of tasks by the minute, one row for each process. Its methods raise `TransientError`."""

    async def write(self, minute: datetime, row: str, counts: Mapping[TaskCounter, int]) -> None:
        """Write a process's `row` of a minute; a repeated write replaces it."""

    async def since(self, minute: datetime) -> Mapping[datetime, Mapping[TaskCounter, int]]:
        """Return the sums over all processes, by minute, from `minute` on."""

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete at most `most` rows of earlier minutes; return the number of deleted rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything that the parts need of the outside, handed on whole."""

    clock: Clock
    #: Makes an id that nobody else has: 32 hexadecimal digits.
    new_id: Callable[[], str]
    store: StateStore
    index: TaskIndex
    index_rows: IndexRows
    outbox: Outbox
    retention: TaskRetention
    rejected: RejectedMessages
    breakers: BreakerRows
    agent_requests: AgentRequestRows
    heartbeats: Heartbeats
    times: Times
    alert_minute: SharedContent
    minute_counts: MinuteCounts
    submissions: Submissions
    postbox: Postbox
    announcements: Announcements
    scheduler_requests: SchedulerRequests
    agent_messages: AgentMessages
    queues: Queues
    line: WaitingLine
