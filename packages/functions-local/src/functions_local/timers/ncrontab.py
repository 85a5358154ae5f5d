"""NCRONTAB schedules as Azure Functions reads them: six fields, seconds first.

They differ from cron: day of month and day of week must both match, a reversed range is swapped, Sunday is
only 0, and `?`, `L`, `W` and `#` are not allowed. With five fields, the second is 0. A TimeSpan (`hh:mm:ss`)
is a schedule, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from functions_local.times import parse_timespan

#: 29 February on a given weekday recurs after 28 years, or 40 across a skipped leap year.
_HORIZON_DAYS = 366 * 41


class Schedule(Protocol):
    """The times at which a timer fires."""

    def next(self, after: datetime) -> datetime:
        """Return the first occurrence strictly after a time; both are naive UTC."""
        ...


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def parse(self, text: str) -> tuple[int, ...]:
        """Read one field: a list of `*`, values and ranges, each with an optional step."""
        return tuple(sorted({value for part in text.split(",") for value in self._part(part)}))

    def _part(self, part: str) -> range:
        span, has_step, step_text = part.partition("/")
        first, is_range, last = span.partition("-")
        if span == "*":
            low, high = self.low, self.high
        elif is_range:
            low, high = sorted((self._value(first), self._value(last)))
        else:
            low = self._value(first)
            high = self.high if has_step else low
        step = self._number(step_text) if has_step else 1
        if step < 1:
            raise ValueError(f"{part!r} is not valid for the {self.name}: the step must be 1 or more")
        return range(low, high + 1, step)

    def _value(self, text: str) -> int:
        if text and not text.isdigit():
            for index, name in enumerate(self.names):
                if name.startswith(text.lower()):
                    return index + self.low
        number = self._number(text)
        if not self.low <= number <= self.high:
            raise ValueError(
                f"{text!r} is not valid for the {self.name}: allowed are {self.low} to {self.high}"
            )
        return number

    def _number(self, text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"{text!r} is not valid for the {self.name}")
        return int(text)


_MONTHS = "january february march april may june july august september october november december"
_DAYS = "sunday monday tuesday wednesday thursday friday saturday"

_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, tuple(_MONTHS.split())),
    _Field("day of week", 0, 6, tuple(_DAYS.split())),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed NCRONTAB expression: the allowed values of each field in ascending order."""

    seconds: Sequence[int]
    minutes: Sequence[int]
    hours: Sequence[int]
    days: Sequence[int]
    months: Sequence[int]
    weekdays: Sequence[int]

    def next(self, after: datetime) -> datetime:
        """Return the first occurrence strictly after a time. Raises ValueError if there is none."""
        start = after.replace(microsecond=0) + timedelta(seconds=1)
        for offset in range(_HORIZON_DAYS):
            day = start + timedelta(days=offset)
            if not self._on(day):
                continue
            floor = (start.hour, start.minute, start.second) if offset == 0 else (0, 0, 0)
            if (moment := self._time_from(floor)) is not None:
                hour, minute, second = moment
                return day.replace(hour=hour, minute=minute, second=second)
        raise ValueError("the schedule never comes due")

    def _on(self, day: datetime) -> bool:
        sunday_first = day.isoweekday() % 7
        return day.month in self.months and day.day in self.days and sunday_first in self.weekdays

    def _time_from(self, floor: tuple[int, int, int]) -> tuple[int, int, int] | None:
        hour, minute, second = floor
        if hour in self.hours:
            if minute in self.minutes and (found := _at_least(self.seconds, second)) is not None:
                return hour, minute, found
            if (found := _at_least(self.minutes, minute + 1)) is not None:
                return hour, found, self.seconds[0]
        if (found := _at_least(self.hours, hour + 1)) is not None:
            return found, self.minutes[0], self.seconds[0]
        return None


@dataclass(frozen=True, slots=True)
class Constant:
    """A TimeSpan schedule: the same wait after each run."""

    interval: timedelta

    def next(self, after: datetime) -> datetime:
        """Return the time one interval later."""
        return after + self.interval


def parse_schedule(text: str) -> Schedule:
    """Read an NCRONTAB expression or a TimeSpan.

    Raises ValueError with the malformed part.
    """
    fields = text.split()
    if len(fields) == 1 and ":" in text:
        interval = parse_timespan(text)
        if interval <= timedelta(0):
            raise ValueError(f"{text!r} is not a positive duration")
        return Constant(interval)
    if len(fields) == len(_FIELDS) - 1:
        fields = ["0", *fields]
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"{text!r} has {len(fields)} fields; NCRONTAB has 6: second minute hour day month weekday"
        )
    return Cron(*(field.parse(part) for field, part in zip(_FIELDS, fields, strict=True)))


def _at_least(values: Sequence[int], floor: int) -> int | None:
    return next((value for value in values if value >= floor), None)
