"""The limit of alerts that are posted singly in a minute; one summary counts the others by cause.

All instances share one row: the start of the minute, the number of alerts that were posted singly, and the
numbers of alerts that wait for the summary, by cause. Times are UTC.

- The first `per_minute` alerts of a minute are posted singly. A failed attempt counts.
- Any other alert is counted in the row before its message is completed; a repeated message counts twice.
- A timer posts the summary when the minute is over, then removes the counts. A crash in between posts twice.
- Alerts are posted singly while the row cannot be read or written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ValidationError

from functions.storage.table_contract import RowChange, StorageError, Table, TransientStorageError, write
from functions.supervisor.sweep_progress import SUPERVISOR

_log = logging.getLogger(__name__)

_KEY = "alerts"
#: Seconds in which an alert must be counted. After them, it is posted singly.
_COUNT_SECONDS = 2.0
_MOST_TRIES = 5
#: Causes that a summary names. Further ones are counted together.
_MOST_CAUSES = 20
_OTHER_CAUSES = "other causes"


class AlertMinute(BaseModel):
    """The alerts since a time: the number posted singly, and the numbers of those that wait, by cause."""

    since: AwareDatetime
    single: int = 0
    waiting: Counter[str] = Counter()

    def is_over(self, now: datetime) -> bool:
        """Return whether the minute has passed."""
        return now >= self.since + timedelta(minutes=1)

    def with_alert(self, cause: str, now: datetime, most: int) -> tuple[AlertMinute, bool]:
        """Count an alert; return the minute after it, and whether the alert is one of the `most` single ones.

        The next minute starts when the summary of this one is posted, or at once if there is none.
        """
        if self.is_over(now) and not self.waiting:
            return AlertMinute(since=now).with_alert(cause, now, most)
        if self.single < most:
            return self.model_copy(update={"single": self.single + 1}), True
        is_named = cause in self.waiting or len(self.waiting) < _MOST_CAUSES
        waiting = self.waiting + Counter([cause if is_named else _OTHER_CAUSES])
        return self.model_copy(update={"waiting": waiting}), False

    def without(self, posted: AlertMinute, now: datetime) -> AlertMinute:
        """Return the minute without the counts of a posted summary, unless another instance removed them."""
        if self.since != posted.since:
            return self
        return AlertMinute(since=now, waiting=self.waiting - posted.waiting)


class AlertLimit:
    """Decides whether an alert is posted singly. `now` returns the time (UTC)."""

    def __init__(self, table: Table, per_minute: int, now: Callable[[], datetime]) -> None:
        self._table, self._per_minute, self._now = table, per_minute, now
        self._changing = asyncio.Lock()  # the instance does not compete with itself
        #: The minute of the latest summary, whose counts may still be in the row.
        self._posted: AlertMinute | None = None

    async def allows(self, cause: str) -> bool:
        """Count an alert, and return whether it is posted singly; otherwise it waits for the summary."""
        try:
            return await self._count(cause, self._per_minute)
        except (StorageError, TimeoutError) as error:
            _log.warning("an alert is not counted: %s", error)
            return True

    async def add(self, cause: str) -> None:
        """Count an alert for the summary. Raises `StorageError` and `TimeoutError`."""
        await self._count(cause, 0)

    async def post_summary(self, post: Callable[[AlertMinute], Awaitable[None]]) -> None:
        """Post the summary of a minute that is over.

        Raises `StorageError` and the errors of `post`: the next call posts it.
        """
        minute, _ = await self._read()
        if minute is None or not minute.waiting or not minute.is_over(self._now()):
            return
        if self._posted is None or self._posted.since != minute.since:
            await post(minute)
            self._posted = minute
        posted, now = self._posted, self._now()
        await self._change(lambda newest: ((newest or AlertMinute(since=now)).without(posted, now), None))

    async def _count(self, cause: str, most: int) -> bool:
        now = self._now()
        async with asyncio.timeout(_COUNT_SECONDS):
            return await self._change(
                lambda minute: (minute or AlertMinute(since=now)).with_alert(cause, now, most)
            )

    async def _change[ResultT](
        self, change: Callable[[AlertMinute | None], tuple[AlertMinute, ResultT]]
    ) -> ResultT:
        """Change the row by compare-and-swap."""
        async with self._changing:
            for _ in range(_MOST_TRIES):
                minute, etag = await self._read()
                after, result = change(minute)
                row = {"Minute": after.model_dump_json()}
                changed = RowChange("insert" if etag is None else "update", _KEY, row, etag or "*")
                if await write(self._table, SUPERVISOR, [changed]):
                    return result
        raise TransientStorageError(f"row {_KEY}: other instances changed it {_MOST_TRIES} times")

    async def _read(self) -> tuple[AlertMinute | None, str | None]:
        """Return the minute and the ETag of its row. A corrupt row is replaced: the log has its alerts."""
        row = await self._table.read(SUPERVISOR, _KEY)
        if row is None:
            return None, None
        try:
            return AlertMinute.model_validate_json(str(row.get("Minute"))), str(row["odata.etag"])
        except ValidationError as error:
            _log.warning("row %s is corrupt and is replaced: %s", _KEY, error.errors()[0]["type"])
            return None, str(row["odata.etag"])
