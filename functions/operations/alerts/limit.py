"""Limits the alerts that are posted singly in a minute; one summary counts the others by cause.

All instances share one row with the current minute: its beginning, the number of alerts that were posted
singly, and the number of those that wait for the summary, by cause. Each change is a compare-and-swap.

- The first `ALERTS_PER_MINUTE` alerts of a minute are posted singly; failed attempts count.
- Any other alert is counted in the row before its message is completed; a redelivered one counts twice.
- When the minute is over, a timer posts the summary and then removes the counts. A crash between posts twice.
- Alerts are posted singly while the row can't be read or written.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from pydantic import BaseModel, ValidationError

from functions.pattern.errors import TransientError
from functions.pattern.ports import Ports
from functions.pattern.times import ZonedTime
from functions.pattern.waiting import within

#: Seconds for a count. After them, the alert is posted singly.
_COUNT_SECONDS = 2.0

_log = logging.getLogger(__name__)


class AlertMinute(BaseModel):
    """Alerts since a time (UTC): the number posted singly, and the numbers of those that wait, by cause."""

    since: ZonedTime
    single: int = 0
    waiting: Counter[str] = Counter()

    def is_over(self, now: datetime) -> bool:
        """Return whether the minute has passed."""
        return now >= self.since + timedelta(minutes=1)

    def add(self, cause: str) -> None:
        """Count an alert for the summary, which names 20 causes and counts the others together."""
        most_causes = 20
        is_named = cause in self.waiting or len(self.waiting) < most_causes
        self.waiting[cause if is_named else "other causes"] += 1


class AlertLimit:
    """Decides whether an alert is posted singly; at most `per_minute` are."""

    def __init__(self, ports: Ports, per_minute: int) -> None:
        self._row = ports.alert_minute
        self._clock = ports.clock
        self._per_minute = per_minute
        #: The minute of the latest summary, whose counts may not be removed yet.
        self._posted: AlertMinute | None = None

    async def allows(self, cause: str) -> bool:
        """Count an alert, and return whether it is posted singly; otherwise it waits for the summary."""
        try:
            return await self._count(cause, self._per_minute)
        except TransientError as fault:
            _log.warning("an alert can't be counted: %s", fault)
            return True

    async def add(self, cause: str) -> None:
        """Count an alert for the summary. Raises `TransientError`."""
        await self._count(cause, 0)

    async def _count(self, cause: str, most: int) -> bool:
        now = self._clock.now()

        def counted(content: bytes | None) -> tuple[bytes, bool]:
            minute = _read(content)
            if minute is None or (minute.is_over(now) and not minute.waiting):
                minute = AlertMinute(since=now)
            is_single = minute.single < most
            if is_single:
                minute.single += 1
            else:
                minute.add(cause)
            return minute.model_dump_json().encode(), is_single

        return await within(_COUNT_SECONDS, self._row.change(counted))

    async def post_summary(self, post: Callable[[AlertMinute], Awaitable[None]]) -> None:
        """Post the summary of a minute that is over. Raises `TransientError`: then it is posted later."""
        minute = _read(await self._row.read())
        if minute is None or not minute.waiting or not minute.is_over(self._clock.now()):
            return
        if self._posted is None or self._posted.since != minute.since:
            await post(minute)
            self._posted = minute
        posted, now = self._posted, self._clock.now()

        def without(content: bytes | None) -> tuple[bytes, None]:
            newest = _read(content)
            if newest is not None and newest.since == posted.since:  # else another instance removed it
                newest = AlertMinute(since=now, waiting=newest.waiting - posted.waiting)
            return (newest or AlertMinute(since=now)).model_dump_json().encode(), None

        await self._row.change(without)


def _read(content: bytes | None) -> AlertMinute | None:
    """Read the row; None if it is missing or corrupt: the log lines of the alerts remain."""
    try:
        return None if content is None else AlertMinute.model_validate_json(content)
    except ValidationError:
        return None
