"""Whether more orders can be taken in: callers are asked to wait before the system has to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from functions.pattern.times import ZonedTime

#: Seconds after which callers may try again, at least and at most.
_SOONEST = 15
_LATEST = 300

#: What was measured longer ago than this closes nothing: whoever measures may be gone.
_GOOD_FOR = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Line:
    """Messages on a queue, about `count` of them; those that wait longest came at `since` (UTC).

    A few that are tried again and again do not count as those. It is None while only a few wait.
    """

    count: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeLimits:
    """How long orders may wait to be recorded, and how many, until callers are asked to wait."""

    age: timedelta
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeState:
    """What was measured at `at` (UTC): messages that wait, tasks that no Scheduler has claimed in time.

    Callers are to come back after `retry_after` seconds; at 0, orders are taken.
    """

    at: ZonedTime
    oldest_seconds: int
    messages: int
    not_picked_up: int
    retry_after: int

    def closed_for(self, now: datetime) -> int:
        """Tell after how many seconds an order may be tried again; 0: it is taken."""
        return self.retry_after if now <= self.at + _GOOD_FOR else 0


_INTAKE: TypeAdapter[IntakeState] = TypeAdapter(IntakeState)


def measured(line: Line, not_picked_up: int, now: datetime, limits: IntakeLimits) -> IntakeState:
    """Tell how much waits, and from that whether more can be taken."""
    age = max(timedelta(), timedelta() if line.since is None else now - line.since)
    over = max(age / limits.age, (line.count + not_picked_up) / limits.waiting)
    return IntakeState(
        at=now,
        oldest_seconds=round(age.total_seconds()),
        messages=line.count,
        not_picked_up=not_picked_up,
        retry_after=0 if over <= 1 else min(_LATEST, math.ceil(_SOONEST * over)),
    )


def read_intake(figures: Mapping[str, Any] | None) -> IntakeState | None:
    """Read what was measured; None before the first time, and for what can't be read."""
    try:
        return None if figures is None else _INTAKE.validate_python(dict(figures))
    except ValidationError:
        return None
