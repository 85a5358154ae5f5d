"""What the state store keeps of one task: the order, the task and its steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from functions.pattern.identity import (
    FIRST_EPOCH,
    Birth,
    Epoch,
    Parent,
    ResourceId,
    SchedulerId,
    StepName,
    TaskId,
    child_id,
    resource_id,
)
from functions.pattern.items import steps_with_items
from functions.pattern.shape import Shape, StepShape
from functions.pattern.states import (
    AlertCause,
    AnnouncementKind,
    Direction,
    EpochEnd,
    ProcessState,
)
from functions.pattern.step_records import PastStep, StepRecord
from functions.pattern.times import ZonedTime

#: An answer is kept in the task's row, and goes out with a notice.
MAX_ANSWER_BYTES = 16 * 1024

#: A step's result is kept in one property of its row, which holds 64 KiB (Table Storage) at most.
MAX_RESULT_BYTES = 24 * 1024

#: What an operator has parked waits for; no workflow has such a name.
BY_OPERATOR = "~operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the caller asked for, and what the task is made of; it never changes.

    `payload` is JSON bytes, `traceparent` W3C's. The `shape` is the definition's at submission: nothing but
    it is asked what the steps are, and `items` how many items its for-each steps have; `item_digests` tell
    which ones. `birth` distinguishes the task from others of its id. Operators find it by its
    `search_keys`, each of which has a row.
    """

    task: TaskId
    birth: Birth
    workflow: str
    workflow_version: int
    shape: Shape = field(repr=False)
    payload: bytes = field(repr=False)
    digest: str
    submitter: str
    submitted_at: datetime
    reply_to: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    items: tuple[int, ...] = ()
    item_digests: tuple[str, ...] = ()
    search_keys: tuple[str, ...] = ()
    parent: Parent | None = None

    @property
    def steps(self) -> tuple[StepShape, ...]:
        """Give the steps that its task is made of. Raises `ValueError` for damage."""
        return steps_with_items(self.shape, self.items)

    @property
    def resource(self) -> ResourceId:
        """Name what the task makes at remote services."""
        return resource_id(self.task, self.birth)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAnnouncement:
    """A notice to the caller, or an alert to the operators with its cause, of what happened in `epoch`."""

    kind: AnnouncementKind
    epoch: Epoch
    sent_at: datetime
    cause: AlertCause | None = None
    step: StepName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How an epoch is to end: by `ended_by` and an undo, or (None) in `Error`; who decided that, and why."""

    who: str
    reason: str
    ended_by: EpochEnd | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The time that a crowd cost a task: extended so many `times`, for the last time `until` then (UTC).

    The `seconds` are those of the extensions, and of the epochs that ended with a turn. It waited `behind`
    what the last `cause` names. Its Scheduler was `asked` for so often meanwhile. It was extended, or had its
    turn, `at` that time (UTC) last.
    """

    until: ZonedTime
    seconds: float
    times: int
    behind: str
    cause: str
    asked: int = 0
    at: ZonedTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The pattern's state record; times are UTC. `due_at` is when the Supervisor must look at it next.

    `failure_count` counts the recoveries since the task was submitted, resubmitted or changed its direction.
    `not_before` is when a Scheduler may take it up after an extended wait. `parked_for` is what a parked task
    waits for, as `{workflow}|{version}`, or `BY_OPERATOR`; `parked_reasons` marks why it was parked, since it
    last went on for another cause than a deployment: of these, operators know. `sent` are the latest sent.
    A `decision` waits for the outcome of what must not be repeated; until then, nothing starts.
    `run` numbers the Schedulers' stays with it within the epoch, after the first. One with a `not_before`
    and no `complete_by` is handed back: only the record waits. `extended` is what crowds cost it since it was
    submitted, resubmitted or changed its direction.
    `answer` is JSON bytes, and only there while it is `Processed`; `last_error` then says why it is missing.
    """

    order_id: TaskId
    locked_by: SchedulerId | None
    complete_by: datetime | None
    process_state: ProcessState
    failure_count: int
    epoch: Epoch
    direction: Direction
    due_at: datetime
    updated_at: datetime
    not_before: datetime | None = None
    finished_at: datetime | None = None
    last_error: str | None = None
    answer: bytes | None = field(default=None, repr=False)
    decision: Decision | None = None
    parked_for: str | None = None
    run: int | None = None
    parked_reasons: tuple[str, ...] = ()
    sent: tuple[SentAnnouncement, ...] = ()
    extended: Extension | None = None

    @property
    def is_extended(self) -> bool:
        """Tell whether its complete-by is an extension, and nothing of it has gone on since."""
        return self.extended is not None and self.complete_by == self.extended.until

    @property
    def awaits_first_turn(self) -> bool:
        """Tell whether only its first Scheduler was asked for, which has not claimed it."""
        return self.process_state is ProcessState.PENDING and (self.epoch, self.run) == (FIRST_EPOCH, None)

    @property
    def is_parked(self) -> bool:
        """Tell whether it waits for what it needs to be deployed, or for an operator who parked it."""
        return self.parked_for is not None

    @property
    def is_parked_by_operator(self) -> bool:
        """Tell whether only an operator has it go on."""
        return self.parked_for == BY_OPERATOR

    @property
    def is_handed_back(self) -> bool:
        """Tell whether it waits for an event or a time, held by nobody and asked for by nobody."""
        is_pending = self.process_state is ProcessState.PENDING and not self.is_parked
        return is_pending and self.complete_by is None and self.not_before is not None

    @property
    def lacks_answer(self) -> bool:
        """Tell whether it was processed, and its answer could not be made."""
        return self.process_state is ProcessState.PROCESSED and self.last_error is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """An epoch that is over: its state when it ended, who ended it, and why; `traceparent` is their span."""

    epoch: Epoch
    ended_by: EpochEnd
    ended_at: datetime
    who: str
    reason: str
    process_state: ProcessState
    direction: Direction
    locked_by: SchedulerId | None
    steps: tuple[PastStep, ...]
    run: int | None = None
    last_error: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostMessage:
    """A message about the task that was dead-lettered; its body is recorded as rejected."""

    queue: str
    message_id: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """All of one task: its rows lie in one partition and change in one transaction."""

    order: Order
    task: Task
    steps: tuple[StepRecord, ...]
    history: tuple[EpochRecord, ...] = ()
    lost: tuple[LostMessage, ...] = ()

    @property
    def queued(self) -> tuple[StepName, ...]:
        """Name the steps of which something comes from outside: a reply, an event, or a task's end."""
        return tuple(step.name for step in self.steps if step.shape.via.is_answered)

    def child(self, step: StepName) -> TaskId:
        """Name the task that is a step of this one, or would be."""
        return child_id(self.order.resource, step)

    def step(self, name: StepName) -> StepRecord:
        """Find a step by its name. Raises `KeyError` when the task has none of that name."""
        return {step.name: step for step in self.steps}[name]

    def steps_of(self, defined: StepName) -> tuple[StepRecord, ...]:
        """Give what stands for a defined step: itself, or one for each item. Nothing for an unknown one."""
        return tuple(step for step in self.steps if step.shape.step == defined)

    def with_step(self, changed: StepRecord) -> TaskRecord:
        """Put `changed` in the place of the step that has its name."""
        steps = tuple(changed if step.name == changed.name else step for step in self.steps)
        return replace(self, steps=steps)
