"""Which rows of trends are added up: the older, the longer the time that one row is of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from functions.pattern.trends import Period, TrendKey, TrendRows

#: How long the rows of a period that is over are kept apart: for as long as they are shown by themselves;
#: those of a minute, so that a process whose answer was lost finds its row when it writes it once more.
_APART = {
    Period.DAY: timedelta(days=1),
    Period.HOUR: timedelta(hours=1),
    Period.MINUTE: timedelta(minutes=10),
}

#: How long trends are kept; shown are thirty days.
_KEPT = timedelta(days=32)

#: Rows that one run looks at, and deletes at a time.
_MOST_ROWS = 50_000
_MOST_DELETED = 1_000


async def condense(rows: TrendRows, now: datetime) -> int:
    """Delete what is past its time, and add up the rest; give how many rows were made."""
    while await rows.delete_before(now - _KEPT, _MOST_DELETED):
        pass
    made = 0
    for into, period in to_condense(await rows.keys(_MOST_ROWS), now):
        while await rows.condense(into, period):
            pass
        made += 1
    return made


def to_condense(keys: Iterable[TrendKey], now: datetime) -> Sequence[tuple[TrendKey, Period]]:
    """Name the rows into which others are to be added up, the oldest first."""
    parts: defaultdict[tuple[TrendKey, Period], set[TrendKey]] = defaultdict(set)
    for key in keys:
        for period, apart in _APART.items():
            if period.start(key.at) + period.length + apart <= now:
                into = TrendKey.of(key.workflow, key.at, period)
                parts[into, period].add(key)
                break
    made = [target for target, found in parts.items() if found != {target[0]}]
    return sorted(made, key=lambda target: (target[0].at, target[0]))
