"""Tells a crowd from a fault: many tasks that are late for one reason, which is none of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.epochs import waited_in_vain
from functions.pattern.records import TaskRecord
from functions.pattern.silent_agents import NOTED_EVERY
from functions.pattern.states import ProcessState, Way
from functions.pattern.step_records import StepRecord

#: What tasks are behind that no Scheduler has claimed.
SCHEDULERS = "Schedulers"


class CrowdCause(StrEnum):
    """Why tasks are late together."""

    #: No Scheduler has claimed them: their requests, or the Schedulers' work, wait in a queue.
    NOT_PICKED_UP = "not picked up"
    #: Their Agent, behind a queue, has answered nothing meanwhile.
    NO_REPLY = "no reply"
    #: The circuit of their remote service is open, or was while they waited.
    CIRCUIT_OPEN = "circuit open"
    #: Requests to their Agent wait for a place at its service, whose calls are limited.
    LIMIT_REACHED = "limit reached"
    #: Requests to their Agent wait for long on its queue.
    QUEUE_LONG = "queue long"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdPolicy:
    """From how many `tasks` on it is a crowd; so many have their turn `per_minute`.

    All extensions of one task last no longer than `longest` together.
    """

    tasks: int = 20
    per_minute: int = 600
    longest: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Behind:
    """What a late task is behind, such as `Agent payment`, and why.

    While that is `blocked`, more work makes nothing better: only a few tasks may try.
    """

    name: str
    cause: CrowdCause
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known of Agents, by their names: their last replies over queues, and their circuits.

    Of the `limited` ones, as many calls are in flight as may be, and there is work for more.
    """

    replied: Mapping[str, datetime]
    breakers: Mapping[str, BreakerRecord]
    limited: frozenset[str] = frozenset()


def behind(record: TaskRecord, now: datetime, signs: Signs) -> Behind | None:
    """Tell what an overdue task is behind; None when only itself, or its host, can be to blame.

    One that was extended is still behind the same when the cause has gone: it waits for its turn.
    """
    if record.task.process_state is ProcessState.PENDING:
        return Behind(SCHEDULERS, CrowdCause.NOT_PICKED_UP)
    late = [step for step in record.steps if _is_late(step, now)]
    for look in _CAUSES:
        for step in late:
            if (found := look(step, signs)) is not None:
                return found
    extension = record.task.extended
    if extension is not None and record.task.is_extended and extension.cause in CrowdCause:
        return Behind(extension.behind, CrowdCause(extension.cause))
    return None


def suspected(record: TaskRecord, now: datetime) -> Behind | None:
    """Tell whose queue may be long, if nothing else explains why an overdue task waits."""
    for step in record.steps:
        if step.shape.via is Way.QUEUE and (_is_late(step, now) or waited_in_vain(step, record)):
            return Behind(agent_named(step.shape.agent), CrowdCause.QUEUE_LONG)
    return None


def is_long(oldest_at: datetime | None, late: TaskRecord, now: datetime) -> bool:
    """Tell whether messages wait for so long on an Agent's queue that a late step's time went there.

    That is half the time that it had, or more.
    """
    within = [step.shape.complete_within for step in late.steps if _is_late(step, now)]
    return oldest_at is not None and bool(within) and now - oldest_at >= timedelta(seconds=min(within) / 2)


def _is_late(step: StepRecord, now: datetime) -> bool:
    return not step.shape.via.waits and step.is_late(now)


def agent_named(agent: str) -> str:
    """Name an Agent as what tasks are behind."""
    return f"Agent {agent}"


def _no_reply(step: StepRecord, signs: Signs) -> Behind | None:
    """Tell whether nothing was heard of the step's Agent when its time ended."""
    replied, until = signs.replied.get(step.shape.agent), step.complete_by
    is_silent = replied is None or (until is not None and replied + NOTED_EVERY <= until)
    if step.shape.via is not Way.QUEUE or not is_silent:
        return None
    return Behind(agent_named(step.shape.agent), CrowdCause.NO_REPLY, blocked=True)


def _circuit(step: StepRecord, signs: Signs) -> Behind | None:
    """Tell whether the step's circuit is open, or was closed again after the step had begun."""
    breaker = signs.breakers.get(step.shape.agent)
    if breaker is None or step.began_at is None:
        return None
    is_closed = breaker.state is BreakerState.CLOSED
    if is_closed and breaker.since < step.began_at:
        return None
    return Behind(agent_named(step.shape.agent), CrowdCause.CIRCUIT_OPEN, blocked=not is_closed)


def _limit(step: StepRecord, signs: Signs) -> Behind | None:
    """Tell whether the step's request waits for a place: a step that is called directly has one."""
    if step.shape.via is not Way.QUEUE or step.shape.agent not in signs.limited:
        return None
    return Behind(agent_named(step.shape.agent), CrowdCause.LIMIT_REACHED)


#: What explains that a step is late, the first that does; each looks at a step, and at the signs.
_CAUSES: Sequence[Callable[[StepRecord, Signs], Behind | None]] = (_no_reply, _circuit, _limit)
