"""The record of one task: its order, its facts, and one record for each step that has started.

Only facts are recorded. State, holder, deadline, due time and the awaited event are derived (`derive.py`).
All times are UTC with a time zone. All texts of requests and results are JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any

from pydantic import AwareDatetime

#: The attribute of a record in which `once` keeps computed values.
_COMPUTED = "computed"

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - for other modules
else:

    def replace(record: Any, /, **changes: Any) -> Any:
        """Return a copy with other fields. It is at least twice as fast as `dataclasses.replace`.

        The class has no slots and no `__post_init__`. Raises `TypeError` for a field that it does not have.
        """
        copy = object.__new__(type(record))
        values = vars(copy)
        values.update(vars(record))
        values.pop(_COMPUTED, None)
        count = len(values)
        values.update(changes)
        if len(values) > count:
            raise TypeError(f"{type(record).__name__} does not have all of the fields {', '.join(changes)}")
        return copy


def once[RecordT, ValueT](function: Callable[[RecordT], ValueT]) -> Callable[[RecordT], ValueT]:
    """Compute a value once for each record, which never changes. Callers must not change the value."""

    @wraps(function)
    def computed(record: RecordT) -> ValueT:
        values: dict[Callable[[RecordT], ValueT], ValueT] = vars(record).setdefault(_COMPUTED, {})
        if function not in values:
            values[function] = function(record)
        return values[function]

    return computed


#: Names of workflows, resources, steps and Agents; they are parts of keys, URLs and queue names.
NAME_PATTERN = "[a-z][a-z0-9-]{0,31}"
#: Attempts of one operation that the record keeps.
MOST_ATTEMPTS = 20
#: The start of the ids of child tasks.
CHILD_PREFIX = "c-"
#: The start of the names of the gates of queues.
QUEUE_PREFIX = "queue:"


class StepType(StrEnum):
    """How a step is carried out."""

    #: An Agent in this process calls the remote service.
    ACTIVITY = "activity"
    #: An Agent behind a queue calls the remote service and replies.
    QUEUE = "queue"
    #: An external sender sends an event.
    EVENT = "event"
    #: The step ends at a time.
    TIMER = "timer"
    #: The step is a task of another workflow.
    WORKFLOW = "workflow"


#: Step types without an Agent: the step waits, and no call is under way.
WAITING_TYPES = frozenset({StepType.EVENT, StepType.TIMER, StepType.WORKFLOW})


class Direction(StrEnum):
    """Whether the steps of a task are carried out or undone."""

    DO = "do"
    UNDO = "undo"


class FailurePolicy(StrEnum):
    """The consequence of a refused step, or of exhausted recoveries."""

    #: Undo every step that was dispatched.
    COMPENSATE = "compensate"
    #: Stay in `Error` for an operator.
    KEEP = "keep"
    #: Continue without the step.
    CONTINUE = "continue"


class OperationState(StrEnum):
    """The state of one operation: the do or the undo of a step."""

    NOT_STARTED = "not started"
    RUNNING = "running"
    DONE = "done"
    #: The service did it, but no valid result is recorded.
    DONE_WITHOUT_RESULT = "done without result"
    REFUSED = "refused"
    #: The deadline has passed without an outcome, and the step must not be repeated.
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class EpochEnd(StrEnum):
    """Why an epoch ended."""

    RECOVERED = "recovered"
    EXHAUSTED = "exhausted"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    UNDO_REQUESTED = "undo requested"
    RESUBMITTED = "resubmitted"
    ANSWERED = "answered"
    #: The time limit of the task has passed.
    TIMED_OUT = "timed out"
    #: The task stays in its epoch, in `Error`.
    STOPPED = "stopped"


#: Ends of an epoch after which every dispatched operation is undone.
UNDOING_ENDS = frozenset(
    {EpochEnd.EXHAUSTED, EpochEnd.REFUSED, EpochEnd.CANCELLED, EpochEnd.UNDO_REQUESTED, EpochEnd.TIMED_OUT}
)


class MessageKind(StrEnum):
    """The messages that a change of a task causes."""

    RECEIVED = "received"
    COMPLETED = "completed"
    FAILED = "failed"
    COMPENSATED = "compensated"
    ALERT = "alert"
    START_CHILD = "start child"
    CANCEL_CHILD = "cancel child"
    CHILD_ENDED = "child ended"


#: Messages to the caller's reply queue.
NOTICES = frozenset(
    {MessageKind.RECEIVED, MessageKind.COMPLETED, MessageKind.FAILED, MessageKind.COMPENSATED}
)
#: Messages to and from child tasks. They stay in the outbox until they are handled, others until sent.
CHILD_MESSAGES = frozenset({MessageKind.START_CHILD, MessageKind.CANCEL_CHILD, MessageKind.CHILD_ENDED})


def queue_gate(agent: str) -> str:
    """Return the name of the gate of an Agent's queue."""
    return f"{QUEUE_PREFIX}{agent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """The snapshot of one step's definition, or of one item of a for-each step.

    `needs` are names of defined steps. The name of an item is `{step}.{item}`. `complete_within` is in
    seconds. `default` is the result (JSON) of an event that does not arrive in time. `can_find`: the Agent
    can look up whether an effect took place. `item_digest` identifies the item that was submitted.
    """

    name: str
    type: StepType = StepType.ACTIVITY
    needs: frozenset[str] = frozenset()
    agent: str = ""
    complete_within: float = 30
    idempotent: bool = True
    undo: bool = False
    on_failure: FailurePolicy | None = None
    default: str | None = None
    role: str = ""
    can_find: bool = False
    workflow: str = ""
    at_once: int | None = None
    item: int | None = None
    item_digest: str = ""

    @property
    def step(self) -> str:
        """Return the name of the defined step, without the number of the item."""
        return self.name if self.item is None else self.name.partition(".")[0]

    @property
    def gate(self) -> str:
        """Return the name of the gate of the step's Agent: that of a service, or of an Agent's queue."""
        return queue_gate(self.agent) if self.type is StepType.QUEUE else self.agent

    @property
    def may_fail(self) -> bool:
        """Return whether the task continues without the step if it fails."""
        return self.on_failure is FailurePolicy.CONTINUE

    def must_not_repeat(self, direction: Direction) -> bool:
        """Return whether an operation starts once only, unless it is known not to have taken place."""
        return direction is Direction.DO and not self.idempotent


@dataclass(frozen=True, kw_only=True)
class Order:
    """The submitted order and the snapshot of its workflow; it never changes.

    `run_id` makes effect keys unique if a task id is used again. `digest` identifies the definition. `specs`
    has one entry for each step and item. `content` is the digest of the submitted JSON. `cancel_within` and
    `complete_within` are in seconds. A child task names its `parent` and the `parent_step`. The caller gave
    the `correlation_id`; `traceparent` (W3C) is the span of the submission.
    """

    task: str
    run_id: str
    workflow: str
    version: int
    digest: str
    specs: tuple[StepSpec, ...]
    payload: str
    submitter: str
    submitted_at: AwareDatetime
    content: str = ""
    on_failure: FailurePolicy = FailurePolicy.KEEP
    on_exhausted: FailurePolicy = FailurePolicy.KEEP
    cancel_within: float | None = None
    complete_within: float | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    parent: str | None = None
    parent_step: str | None = None

    @property
    @once
    def by_name(self) -> Mapping[str, StepSpec]:
        """Return the specs by name."""
        return {spec.name: spec for spec in self.specs}

    def effect_key(self, step: str, direction: Direction, generation: int = 0) -> str:
        """Return the idempotency key of an effect, which is the same in every epoch."""
        key = f"{self.task}.{self.run_id}/{step}/{direction}"
        return f"{key}/{generation}" if generation else key

    def child(self, step: str, generation: int = 0) -> str:
        """Return the task id of a workflow step: a digest of its effect key."""
        key = self.effect_key(step, Direction.DO, generation)
        return CHILD_PREFIX + hashlib.sha256(key.encode()).hexdigest()[:40]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of an operation that ended. `seconds` is its duration, to which holds of its queue apply."""

    started_at: AwareDatetime
    seconds: float
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The do or the undo of one step. Its `request` is recorded once and never replaced.

    `number` counts the dispatches of the task; an operation with a number was dispatched. `run` recorded the
    current start, or the look-up by an Agent behind a queue. `start_id` identifies the current start.
    `earlier_starts` are previous starts of a step that must not be repeated. `unknown_starts` counts the
    starts under this effect key without a known outcome.

    While `gate` is set, the operation is deferred behind that closed gate. `is_released` lets it pass a
    half-open gate. At `defer_by` a deferred operation counts as overdue; a release saves the rest of that
    time in `defer_left`. While there are `finds_left`, runs look up the outcome; one is lost at `find_by`.

    `send_by` is set until it is on record that the request to a queue, or its look-up, was sent. After that
    time another run sends it again; `run` is None until it does, and 0 if the run is of an earlier epoch.
    """

    state: OperationState = OperationState.NOT_STARTED
    number: int | None = None
    run: int | None = None
    start_id: str | None = None
    earlier_starts: tuple[str, ...] = ()
    request: str | None = None
    started_at: AwareDatetime | None = None
    complete_by: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    result: str | None = None
    error: str | None = None
    gate: str | None = None
    is_released: bool = False
    deferred_since: AwareDatetime | None = None
    defer_by: AwareDatetime | None = None
    defer_left: timedelta | None = None
    finds_left: int = 0
    find_by: AwareDatetime | None = None
    send_by: AwareDatetime | None = None
    unknown_starts: int = 0
    attempts: tuple[Attempt, ...] = ()

    def ended(
        self, state: OperationState, now: datetime, *, result: str | None = None, error: str | None = None
    ) -> Operation:
        """Return the operation in a final state, without deferral and look-up. `now` is in UTC."""
        over = replace(self.with_finds(0), gate=None, deferred_since=None, defer_by=None, defer_left=None)
        return replace(over, state=state, is_released=False, finished_at=now, result=result, error=error)

    def with_finds(self, left: int) -> Operation:
        """Return the operation with no request and no look-up under way."""
        return replace(self, finds_left=left, find_by=None, send_by=None)

    def restartable(self, now: datetime, outcome: str) -> Operation:
        """Return the operation ready to start again; its current start becomes an attempt."""
        return replace(self.with_attempt(now, outcome).with_finds(0), state=OperationState.NOT_STARTED)

    def with_attempt(self, now: datetime, outcome: str) -> Operation:
        """Return the operation with its current start as an attempt, if a start is under way."""
        is_recorded = self.attempts[-1:] and self.attempts[-1].started_at == self.started_at
        if self.state is not OperationState.RUNNING or self.started_at is None or is_recorded:
            return self
        seconds = (now - self.started_at).total_seconds()
        attempt = Attempt(started_at=self.started_at, seconds=seconds, outcome=outcome)
        return replace(self, attempts=(*self.attempts, attempt)[-MOST_ATTEMPTS:])

    @property
    def under_way_until(self) -> datetime | None:
        """Return the deadline of an operation or a look-up that is under way."""
        return self.complete_by if self.state is OperationState.RUNNING else self.find_by

    def is_overdue(self, now: datetime) -> bool:
        """Return whether the operation is under way beyond its deadline. `now` is in UTC."""
        return bool(self.complete_by and self.state is OperationState.RUNNING and self.complete_by <= now)


#: The operation of a step that has never started.
NOT_STARTED = Operation()


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One step: its two operations, its event, and a note for operators.

    `earlier_dos` are the dos of earlier generations: the request was rebuilt, or the child was undone. Each
    has its own effect key and is undone as well, the newest first. `undone` counts the undone generations.
    """

    name: str
    do: Operation = NOT_STARTED
    undo: Operation = NOT_STARTED
    event: str | None = None
    event_by: str | None = None
    note: str | None = None
    earlier_dos: tuple[Operation, ...] = ()
    undone: int = 0

    @property
    def dispatched(self) -> tuple[Operation, ...]:
        """Return the dos of all generations that were dispatched, the oldest first."""
        return tuple(do for do in (*self.earlier_dos, self.do) if do.number is not None)

    @property
    def number(self) -> int | None:
        """Return the number of the latest dispatch, None for a step that was never dispatched."""
        return max((do.number for do in self.dispatched if do.number is not None), default=None)

    def generation(self, direction: Direction) -> int:
        """Return the generation that is carried out, or undone next. The first is 0."""
        return len(self.earlier_dos) if direction is Direction.DO else len(self.dispatched) - 1 - self.undone

    def operation(self, direction: Direction) -> Operation:
        """Return the operation of a direction."""
        return self.do if direction is Direction.DO else self.undo

    def with_new_do(self, request: str | None = None) -> StepRecord:
        """Return the step with another do, which is a new generation if the last one was dispatched.

        Without a request, the definition makes another one.
        """
        return replace(self, do=Operation(request=request), earlier_dos=self.dispatched)

    def with_undone(self, undo: Operation) -> StepRecord:
        """Return the step after the undo of a generation; the next older generation is undone next."""
        if self.undone + 1 < len(self.dispatched):
            return replace(self, undo=Operation(), undone=self.undone + 1)
        return replace(self, undo=undo)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How the epoch ends when no outcome is pending. If it `is_derived`, it follows from states of steps."""

    end: EpochEnd
    reason: str
    who: str = "scheduler"
    is_derived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """No step of the task starts: an operator paused it, or its version is not deployed."""

    reason: str
    by_operator: bool
    since: AwareDatetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedEpoch:
    """An epoch that ended, for operators. No rule depends on it. `steps` are states by step name."""

    epoch: int
    end: EpochEnd
    who: str
    reason: str
    ended_at: AwareDatetime
    direction: Direction
    runs: int
    steps: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message that a change of a task causes. Its `id` is the same in every repetition."""

    kind: MessageKind
    id: str
    task: str
    at: AwareDatetime
    to: str = ""
    body: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TaskRecord:
    """All facts about one task.

    `run` is the number of the newest run of this epoch, which must start the ready steps until `start_by`.
    `resume_at` defers the whole task since `deferred_since`. `error` is the reason why the task is in
    `Error`. At `expires_at` the task's own time limit ends; suspensions and holds move it. `acted_at` is the
    time of an operator's latest action or of a cancel. `stops` are the latest spans of suspensions and holds
    by which it and the deferrals were extended. `closed` and `outbox` are additions of one change, and empty
    in a record that was read.
    """

    order: Order
    start_by: AwareDatetime
    epoch: int = 1
    run: int = 1
    direction: Direction = Direction.DO
    failures: int = 0
    steps: Mapping[str, StepRecord] = field(default_factory=dict)
    decision: Decision | None = None
    suspension: Suspension | None = None
    error: str | None = None
    resume_at: AwareDatetime | None = None
    expires_at: AwareDatetime | None = None
    acted_at: AwareDatetime | None = None
    stops: tuple[tuple[AwareDatetime, AwareDatetime], ...] = ()
    deferred_since: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    reason: str | None = None
    output: str | None = None
    closed: tuple[ClosedEpoch, ...] = ()
    outbox: tuple[Message, ...] = ()

    def step(self, name: str) -> StepRecord:
        """Return the record of a step, empty for one that has never started."""
        return self.steps.get(name) or StepRecord(name=name)

    def do(self, name: str) -> Operation:
        """Return the do of a step."""
        return self.steps[name].do if name in self.steps else NOT_STARTED

    def current(self, name: str) -> Operation:
        """Return the operation of a step in the direction of the task."""
        return self.steps[name].operation(self.direction) if name in self.steps else NOT_STARTED

    @property
    @once
    def operations(self) -> Sequence[tuple[StepSpec, Operation]]:
        """Return the recorded operations in the direction of the task, with their specs."""
        by_name, is_do = self.order.by_name, self.direction is Direction.DO
        return [(by_name[name], step.do if is_do else step.undo) for name, step in self.steps.items()]

    @property
    def messages(self) -> Sequence[Message]:
        """Return the messages of the outbox, the last one of each id."""
        return list({message.id: message for message in self.outbox}.values())

    def with_step(self, step: StepRecord) -> TaskRecord:
        """Return the record with another record of one step."""
        return replace(self, steps={**self.steps, step.name: step})

    def with_operation(
        self, name: str, operation: Operation, direction: Direction | None = None
    ) -> TaskRecord:
        """Return the record with another operation of one step, by default in the task's direction."""
        step, is_do = self.step(name), (direction or self.direction) is Direction.DO
        return self.with_step(replace(step, do=operation) if is_do else replace(step, undo=operation))


class NotDeployedError(LookupError):
    """The version of a task's workflow is not deployed on this instance as it was submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """The settings of the rules.

    `start_within` is the time in which a requested run must start a step. `skew` is the largest difference
    between the clocks of two instances. `threshold` is the number of immediate recoveries; `extended_waits`
    are the waits before each further one. `open_after` failures in a row open a queue's circuit. It stays
    open for `first_opening`, and twice as long each time up to `longest_opening`. Gates release steps each
    `release_interval`, and probe a queue each `probe_interval`. `defer_for` bounds one step's deferral; a
    task without a run is deferred for up to `longest_deferral` at a time. `check_deployed` raises
    `NotDeployedError` if the version of a task is not deployed. `make_output` returns the output (JSON) of a
    processed task. It raises `NotDeployedError`, and `UnfitValueError` if the workflow's function fails.
    """

    start_within: timedelta = timedelta(seconds=30)
    skew: timedelta = timedelta(seconds=2)
    threshold: int = 3
    extended_waits: tuple[timedelta, ...] = (timedelta(minutes=5), timedelta(minutes=30))
    first_opening: timedelta = timedelta(seconds=5)
    longest_deferral: timedelta = timedelta(minutes=5)
    longest_opening: timedelta = timedelta(seconds=30)
    release_interval: timedelta = timedelta(seconds=1)
    probe_interval: timedelta = timedelta(seconds=5)
    open_after: int = 5
    defer_for: timedelta = timedelta(hours=6)
    make_output: Callable[[TaskRecord], str | None] = lambda _record: None
    check_deployed: Callable[[TaskRecord], None] = lambda _record: None


def scheduler_id(task: str, epoch: int, run: int) -> str:
    """Return the name of a run, which is also the id of its Durable instance."""
    return f"{task}.{epoch}.{run}"
