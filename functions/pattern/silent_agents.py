"""Agents behind queues that answer nothing: nobody serves their queue, or what they need is down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from functions.pattern.records import TaskRecord
from functions.pattern.states import Way
from functions.pattern.step_records import StepRecord
from functions.pattern.times import ZonedTime

_AGENTS = "agents"

#: How often the time of a reply is kept: a busy Agent's must not all write one row.
NOTED_EVERY = timedelta(seconds=10)
#: Longer than the wait between two recoveries usually is: if no task was found to wait meanwhile, none does.
_FORGOTTEN_AFTER = timedelta(hours=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentAgent:
    """An Agent that has not replied since (None: never), and how many tasks a sweep found waiting for it.

    The last of them was found at that time.
    """

    agent: str
    since: ZonedTime | None
    found_at: ZonedTime
    tasks: int

    def __str__(self) -> str:
        since = "" if self.since is None else f" since {self.since:%Y-%m-%d %H:%M} UTC"
        waiting = "1 task waits" if self.tasks == 1 else f"{self.tasks} tasks wait"
        return f"no reply of Agent {self.agent}{since}; {waiting}"


@dataclass(frozen=True, slots=True)
class Silences:
    """What is known of silent Agents after a sweep, and what of it is new."""

    known: tuple[SilentAgent, ...]
    begun: tuple[SilentAgent, ...]
    ended: tuple[SilentAgent, ...]


_KNOWN: TypeAdapter[tuple[SilentAgent, ...]] = TypeAdapter(tuple[SilentAgent, ...])


def asked_at(record: TaskRecord, now: datetime) -> Mapping[str, datetime]:
    """Tell when each Agent was asked that a task waits for over a queue, beyond its complete-by."""
    return {
        step.shape.agent: step.began_at
        for step in record.steps
        if step.began_at is not None and _waits_in_vain(step, now)
    }


def waited_until(record: TaskRecord, now: datetime) -> Mapping[str, datetime]:
    """Tell until when a task waited for each such Agent."""
    return {
        step.shape.agent: step.complete_by
        for step in record.steps
        if step.complete_by is not None and _waits_in_vain(step, now)
    }


def _waits_in_vain(step: StepRecord, now: datetime) -> bool:
    return step.shape.via is Way.QUEUE and step.is_late(now)


def heard(
    known: Sequence[SilentAgent],
    asked: Mapping[str, Sequence[datetime]],
    replied: Mapping[str, datetime],
    now: datetime,
) -> Silences:
    """Tell of which Agents nothing was heard since they were asked; a silence ends with the first reply.

    `asked` are the times of the requests that are overdue, `replied` those of the last replies. A silence of
    which nobody is found to wait any more is forgotten.
    """
    ended = {each.agent for each in known if replied.get(each.agent) != each.since}
    counted = {agent: _unanswered(times, replied.get(agent)) for agent, times in asked.items()}
    found = {agent: tasks for agent, tasks in sorted(counted.items()) if tasks}
    lasting = tuple(
        replace(each, tasks=max(each.tasks, found[each.agent]), found_at=now) if each.agent in found else each
        for each in known
        if each.agent not in ended and (each.agent in found or now < each.found_at + _FORGOTTEN_AFTER)
    )
    before = {each.agent for each in known}
    begun = tuple(
        SilentAgent(agent=agent, since=replied.get(agent), tasks=tasks, found_at=now)
        for agent, tasks in found.items()
        if agent not in before
    )
    return Silences(lasting + begun, begun, tuple(each for each in known if each.agent in ended))


def _unanswered(times: Sequence[datetime], replied: datetime | None) -> int:
    """Count the requests since which no reply was kept, nor one passed over because of the one kept."""
    return sum(replied is None or replied + NOTED_EVERY <= each for each in times)


def read_silences(row: Mapping[str, Any] | None) -> tuple[SilentAgent, ...]:
    """Read what was kept; what can't be read is forgotten, and would be told again."""
    try:
        return _KNOWN.validate_json((row or {}).get(_AGENTS, b"[]"))
    except ValidationError:
        return ()


def written_silences(known: tuple[SilentAgent, ...]) -> Mapping[str, Any]:
    """Write what is known as figures of a sweep."""
    return {_AGENTS: _KNOWN.dump_json(known)}
