"""What is known of crowds from sweep to sweep: how many are late, since when, and when one is over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from functions.pattern.crowds import CrowdCause
from functions.pattern.records import TaskRecord
from functions.pattern.times import ZonedTime

#: A crowd of which nothing was found for this long after its last extension is over.
_OVER_AFTER = timedelta(minutes=2)
#: A crowd's tasks are counted for so long at least.
_SPAN = timedelta(hours=1)
#: A crowd in which fewer than this part of what makes one were found in such a span is none any more.
_FEW = 0.5
#: One of which nothing was found for this long holds nobody up: of those in line, some come due all the time.
_FOUND_LATELY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """So many tasks that are late behind `behind`, as far as sweeps know, the oldest of them `since` then.

    In the latest sweep, so many had their `turns`. The last extension that was given ends at `until`; the
    last task was found at `found_at` (UTC). Since `span_since`, so many others were `met` as late, and in the
    time before that, `met_before`. That span ends at `span_until` at the earliest: by then, all that had more
    time when it began are late once more, or gone.
    """

    behind: str
    cause: CrowdCause
    since: ZonedTime
    tasks: int
    found_at: ZonedTime
    until: ZonedTime
    blocked: bool = False
    turns: int = 0
    span_since: ZonedTime | None = None
    span_until: ZonedTime | None = None
    met: int = 0
    met_before: int = 0

    def is_many(self, tasks: int) -> bool:
        """Tell whether it is still one; so many `tasks` begin one.

        Its last ones are late by themselves: stuck, they would keep it alive, and hide the next one.
        """
        return max(self.met, self.met_before) >= _FEW * tasks

    def has_met(self, record: TaskRecord, now: datetime) -> bool:
        """Tell whether a late task was met as one of it before, in this span of time."""
        extension, since = record.task.extended, self.span_at(now)
        if extension is None or since is None:
            return False
        return extension.behind == self.behind and extension.at >= since

    def span_at(self, now: datetime) -> datetime | None:
        """Tell since when its tasks are counted, unless that is too long ago by now."""
        if self.span_since is None:
            return None
        ends = self.span_since + _SPAN
        return self.span_since if now < max(ends, self.span_until or ends) else None

    def is_over(self, now: datetime) -> bool:
        """Tell whether nothing of it was found for long, if this is the latest that is known of it."""
        return now > max(self.until, self.found_at) + _OVER_AFTER

    def was_found_lately(self, now: datetime) -> bool:
        """Tell whether a sweep has found something of it just now, so that its tasks may be taken to wait."""
        return now <= self.found_at + _FOUND_LATELY

    def minutes(self, per_minute: int) -> int:
        """Tell how long it takes until each task has had its turn, at that rate."""
        return -(-self.tasks // per_minute)

    def with_task(
        self,
        late_since: datetime,
        until: datetime | None,
        *,
        blocked: bool,
        had_turn: bool,
        was_met: bool = False,
    ) -> Crowd:
        """Count another task, which was extended `until` then, or had its turn, or both."""
        return replace(
            self,
            tasks=self.tasks + 1,
            since=min(self.since, late_since),
            until=max(self.until, until or self.until),
            blocked=self.blocked or blocked,
            turns=self.turns + int(had_turn),
            met=self.met + int(not was_met),
        )


@dataclass(frozen=True, slots=True)
class Crowds:
    """What is known of crowds after a sweep, and what of it is new, or over."""

    known: tuple[Crowd, ...]
    begun: tuple[Crowd, ...]
    ended: tuple[Crowd, ...]


def after_sweep(known: Sequence[Crowd], found: Sequence[Crowd], now: datetime, tasks: int) -> Crowds:
    """Compare what a sweep found with what was known before it; so many `tasks` make a crowd.

    One that was few by then, and is many again, has begun anew.
    """
    new = {each.behind: each for each in found}
    before = {each.behind: each for each in known if each.is_many(tasks) or each.behind not in new}
    lasting = [_merged(each, new[name], now) if name in new else each for name, each in before.items()]
    ended = tuple(each for each in lasting if each.behind not in new and each.is_over(now))
    first = (each for name, each in sorted(new.items()) if name not in before)
    begun = tuple(replace(each, span_since=each.found_at, span_until=each.until) for each in first)
    kept = tuple(each for each in lasting if each not in ended)
    return Crowds(kept + begun, begun, ended)


def _merged(before: Crowd, found: Crowd, now: datetime) -> Crowd:
    left = min(before.tasks - found.turns, _in_line(before, found))
    since = before.span_at(now)
    return replace(
        found,
        span_since=since or found.found_at,
        span_until=before.span_until if since else before.until,
        met=found.met if since is None else before.met + found.met,
        met_before=before.met_before if since else before.met,
        since=min(before.since, found.since),
        tasks=max(left, found.tasks),
        until=max(before.until, found.until),
    )


def _in_line(before: Crowd, found: Crowd) -> int:
    """Tell how many are left at most, if as many come due until the last one as since the sweep before.

    Those that have gone on by themselves never come due: without this, they would count until then.
    """
    pause = found.found_at - before.found_at
    if before.blocked or found.blocked or pause <= timedelta():
        return before.tasks
    return math.ceil(found.tasks * (1 + max(timedelta(), before.until - found.found_at) / pause))
