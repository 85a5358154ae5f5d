"""Collects what happens to tasks in this process, and writes it down when a minute is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from datetime import datetime
from random import Random, SystemRandom

from functions.pattern.errors import TransientError
from functions.pattern.occurrences import Occurrences
from functions.pattern.ports import Clock
from functions.pattern.trends import Period, Trend, TrendKey, TrendRows

_log = logging.getLogger(__name__)

#: Seconds after the end of a minute in which it is written, at random: not all processes at once.
_SPREAD = 10

#: Rows that are kept while the store does not take them.
_MOST_UNWRITTEN = 1_000


class CollectedTrends:
    """Writes one row a minute for each workflow of which anything happened, and none that tasks wait for.

    What the process has not written when it ends is lost: a minute's counts, and no task's state.
    """

    def __init__(
        self,
        rows: TrendRows,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._new_id = new_id
        self._sleep = sleep
        self._random = random or SystemRandom()
        self._collecting: dict[tuple[str, datetime], Trend] = {}
        self._unwritten: dict[TrendKey, Trend] = {}
        self._writing: asyncio.Task[None] | None = None

    def collect(self, occurred: Occurrences) -> None:
        """Count what a change came to."""
        if occurred.is_nothing:
            return
        minute = Period.MINUTE.start(self._clock.now())
        self._collecting.setdefault((occurred.workflow, minute), Trend()).count(occurred)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_each_minute(), context=Context())

    async def settle(self) -> None:
        """Wait until all is written."""
        if self._writing is not None:
            await self._writing

    async def _write_each_minute(self) -> None:
        """Go on for as long as there is anything to write."""
        while self._collecting or self._unwritten:
            now = self._clock.now()
            over = Period.MINUTE.start(now) + Period.MINUTE.length
            await self._sleep((over - now).total_seconds() + _SPREAD * self._random.random())
            self._set_apart_what_is_over()
            for key in [*self._unwritten]:
                await self._write(key)

    def _set_apart_what_is_over(self) -> None:
        running = Period.MINUTE.start(self._clock.now())
        for workflow, minute in [each for each in self._collecting if each[1] != running]:
            key = TrendKey(workflow, minute, self._new_id())
            self._unwritten[key] = self._collecting.pop((workflow, minute))
        while len(self._unwritten) > _MOST_UNWRITTEN:
            del self._unwritten[next(iter(self._unwritten))]

    async def _write(self, key: TrendKey) -> None:
        try:
            await self._rows.insert(key, self._unwritten[key])
        except TransientError as fault:
            _log.warning("trend of %s: not written yet (%s)", key.workflow, fault)
            return
        except Exception:  # noqa: BLE001 - the next ones are to be written all the same
            _log.exception("trend of %s: not written", key.workflow)
        del self._unwritten[key]
