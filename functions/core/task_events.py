"""The events of a task, and the reasons for which one is rejected. Times are UTC, results are JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from functions.core.gate_rules import Gate, Hold
from functions.core.record import Direction


class Rejection(StrEnum):
    """Why an event does not change a record."""

    STALE_EPOCH = "the epoch has ended"
    FINISHED = "the task is finished"
    LATE = "the deadline has passed"
    OTHER_START = "another start of the step is on record"
    ENDED = "the start has ended"
    NOT_READY = "the step is not ready"
    NOT_DUE = "nothing is due"
    NOT_IN_ERROR = "the task is not in Error"
    OUTCOME_UNKNOWN = "an operator must first decide an unknown outcome"
    NOT_OPEN = "the task has no such open question, event or suspension"
    NOT_CANCELLABLE = "this caller cannot cancel the task any more"
    NOT_DEPLOYED = "the version of the task is not deployed; retry later"


class OutcomeKind(StrEnum):
    """The outcome of one start."""

    DONE = "done"
    #: The remote service did it, but the result cannot be recorded.
    DONE_WITHOUT_RESULT = "done without result"
    #: The remote service refused the request permanently.
    REFUSED = "refused"
    #: The service was not called, or the Agent took the request too late.
    NOT_BEGUN = "not begun"
    #: The outcome is unknown, and this start will bring no other outcome.
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """An operator's answer on the operation of a step."""

    DONE = "done"
    NOT_DONE = "not done"
    UNDONE = "undone by hand"
    LEFT = "left as it is"


class Canceller(StrEnum):
    """The role of the person or task that cancels a task."""

    CALLER = "caller"
    OPERATOR = "operator"
    PARENT = "parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run starts. If it was interrupted before, its own repeatable calls start again.

    It records by `send_by` which requests to queues it has sent.
    """

    epoch: int
    run: int
    send_by: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """A run starts an operation of a ready step, or a look-up of its start whose outcome is unknown.

    `request` counts only if no request is on record.
    """

    epoch: int
    run: int
    step: str
    start_id: str
    complete_by: datetime
    request: str
    send_by: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsSent:
    """Requests `{start id}` and look-ups `{start id}.{epoch}.find` were sent; those `given_up` were not."""

    start_ids: frozenset[str]
    given_up: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSkipped:
    """The condition of the step is false."""

    epoch: int
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDeferred:
    """A run does not start a ready step, because the gate of its Agent is closed."""

    epoch: int
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBroken:
    """A function of the definition raised an error, or returned a value that cannot be sent."""

    epoch: int
    step: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRejected:
    """The model of a step rejects the result on record, for example after a change of the model."""

    epoch: int
    step: str
    error: str


@dataclass(frozen=True, kw_only=True)
class StepEnded:
    """The outcome of one start. The start id proves that the sender has the request.

    `has_unanswered`: another request of this start had no answer and may still take effect. `is_look_up`: the
    Agent looked it up afterwards.
    """

    epoch: int
    step: str
    direction: Direction
    start_id: str
    kind: OutcomeKind
    result: str | None = None
    error: str | None = None
    has_unanswered: bool = False
    is_look_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceived:
    """A sender sent the event of a step, which may not have started yet. `body` is valid JSON."""

    step: str
    body: str
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnded:
    """The task of a workflow step was processed (with an output) or compensated (with a reason).

    `run_id` is that of the parent. `child` is the id of the task; empty: that of the step's first generation.
    """

    step: str
    run_id: str
    is_done: bool
    child: str = ""
    result: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A scheduled message or the Supervisor examines a task because a time has passed.

    Without `may_recover`, no recovery starts. With `is_overloaded`, a task that no run has picked up is
    deferred, uncounted. `holds` are the operators' holds by gate. `queues` are the gates of Agents' queues by
    which overdue requests are deferred. Only requests that their gates `counted` (start ids) may fail.
    """

    may_recover: bool = False
    is_overloaded: bool = False
    holds: Mapping[str, tuple[Hold, ...]] = field(default_factory=dict)
    queues: Mapping[str, Gate] = field(default_factory=dict)
    counted: Collection[str | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReleased:
    """The release chain of a gate releases at most `most` steps of the task, deferred at `since` or before.

    A step that was deferred again after the chain read its index row keeps its later place.
    """

    gate: str
    most: int
    since: datetime | None = None
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """No step starts until the task is resumed. With `epoch`, the event counts in that epoch only."""

    reason: str
    by_operator: bool = False
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The suspension ends: an operator resumes the task, or its version is deployed again."""

    by_operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """A caller, operator or parent task requests that the task is undone."""

    by: Canceller
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmitted:
    """An operator resumes a task in `Error` in its direction. `epoch` is the one that the operator saw.

    The request of the refused step `rebuild` is made again, under a new effect key. A workflow step whose
    child was undone starts another child.
    """

    epoch: int
    who: str
    reason: str
    rebuild: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequested:
    """An operator requests the undo of a task in `Error`. `epoch` is the one that the operator saw."""

    epoch: int
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An operator's verdict on a step of a task in `Error`. `epoch` is the one that the operator saw."""

    epoch: int
    step: str
    verdict: Verdict
    who: str
    reason: str
    result: str | None = None


type RunEvent = RunStarted | StepStarted | RequestsSent | StepSkipped | StepDeferred | StepBroken
type StepEvent = ResultRejected | StepEnded | EventReceived | ChildEnded
type PersonEvent = Suspended | Resumed | Cancelled | Resubmitted | UndoRequested | Answered
type Event = RunEvent | StepEvent | Due | GateReleased | PersonEvent
