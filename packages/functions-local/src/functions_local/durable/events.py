"""The history of an orchestration: one class for each kind of event, with Durable Task's fields.

An episode moves messages from the instance's inbox into its history, and appends the decisions. In JSON the
fields have the same names in PascalCase (`event_json.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import ClassVar

from functions_local.times import now_text


class RuntimeStatus(Enum):
    """State of an instance. History has the value, the API has the name."""

    #: The orchestrator has run at least once and is not finished.
    Running = 0
    Completed = 1
    #: It continued as new, and the new generation has not run yet.
    ContinuedAsNew = 2
    #: It raised, or could not be replayed.
    Failed = 3
    #: Accepted and not run yet.
    Pending = 6
    Terminated = 5
    Suspended = 7

    @property
    def is_terminal(self) -> bool:
        """Whether the instance has ended."""
        return self in {RuntimeStatus.Completed, RuntimeStatus.Failed, RuntimeStatus.Terminated}


class EventType(IntEnum):
    """The kinds of events, numbered as in Durable Task; the names are those in `historyEvents`."""

    ExecutionStarted = 0
    ExecutionCompleted = 1
    ExecutionTerminated = 3
    TaskScheduled = 4
    TaskCompleted = 5
    TaskFailed = 6
    TimerCreated = 10
    TimerFired = 11
    OrchestratorStarted = 12
    OrchestratorCompleted = 13
    EventRaised = 15
    ExecutionSuspended = 19
    ExecutionResumed = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """The fields of every event."""

    kind: ClassVar[EventType]
    timestamp: str = field(default_factory=now_text)
    event_id: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStarted(_Event):
    """First message of a generation. The nulls belong to features that are not supported."""

    kind = EventType.ExecutionStarted
    orchestration_instance: Mapping[str, str]
    parent_instance: None = None
    name: str
    version: str = ""
    input: str | None
    tags: None = None
    correlation: None = None
    parent_trace_context: None = None
    scheduled_start_time: None = None
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCompleted(_Event):
    """Last event of a finished instance."""

    kind = EventType.ExecutionCompleted
    orchestration_status: int
    result: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTerminated(_Event):
    """Message of a terminate request; the input is its reason."""

    kind = EventType.ExecutionTerminated
    input: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSuspended(_Event):
    """Message of a suspend request."""

    kind = EventType.ExecutionSuspended
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResumed(_Event):
    """Message of a resume request."""

    kind = EventType.ExecutionResumed
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScheduled(_Event):
    """Decision to run an activity. Its input is in history only if host.json says so, as in the extension."""

    kind = EventType.TaskScheduled
    name: str
    version: str = ""
    input: str | None = None
    parent_trace_context: None = None
    tags: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCompleted(_Event):
    """Message of an activity that returned; the result is JSON text, or None for nothing."""

    kind = EventType.TaskCompleted
    task_scheduled_id: int
    result: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(_Event):
    """Message of an activity that raised."""

    kind = EventType.TaskFailed
    task_scheduled_id: int
    reason: str
    details: str | None
    failure_details: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerCreated(_Event):
    """Decision to set a timer."""

    kind = EventType.TimerCreated
    fire_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(_Event):
    """Message of a timer, delivered when it is due."""

    kind = EventType.TimerFired
    timer_id: int
    fire_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStarted(_Event):
    """Start of an episode; its timestamp is the orchestrator's `current_utc_datetime`."""

    kind = EventType.OrchestratorStarted


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorCompleted(_Event):
    """End of an episode."""

    kind = EventType.OrchestratorCompleted


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRaised(_Event):
    """Message of an external event; the input is JSON text."""

    kind = EventType.EventRaised
    name: str
    input: str | None


type Completion = TaskCompleted | TaskFailed | TimerFired
#: Events that a suspended instance does not process before it is resumed.
type OrdinaryEvent = (
    ExecutionStarted
    | ExecutionCompleted
    | ExecutionTerminated
    | TaskScheduled
    | TimerCreated
    | OrchestratorCompleted
    | EventRaised
    | Completion
)
type Event = OrdinaryEvent | OrchestratorStarted | ExecutionSuspended | ExecutionResumed
