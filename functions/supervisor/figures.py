"""What a sweep counts, for its log line and its heartbeat."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from functions.pattern.errors import TransientError

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Tally:
    """Counters of a sweep.

    `failures` are things that an error has left as they are; `unfinished` says that there was more to
    do than one sweep takes.
    """

    failures: int = 0
    unfinished: bool = False

    @contextmanager
    def surviving(self, what: str) -> Iterator[None]:
        """Count and log an error of the block, and go on: one thing's failure never stops a sweep."""
        try:
            yield
        except TransientError as fault:
            self.failures += 1
            _log.warning("%s: left to the next sweep (%s)", what, fault)
        except Exception:  # noqa: BLE001 - whatever one task does, the others have their turn
            self.failures += 1
            _log.exception("%s: failed inside, left to the next sweep", what)

    @asynccontextmanager
    async def bounded(self, seconds: float) -> AsyncIterator[None]:
        """Cut the block short after `seconds`; whatever it was doing, the next sweep finds it."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            self.unfinished = True

    def counted(self) -> dict[str, Any]:
        """Give the figures that are not zero, by name."""
        return {name: value for name, value in asdict(self).items() if value}

    def __str__(self) -> str:
        return json.dumps(self.counted())


@dataclass(slots=True)
class SweepFigures(Tally):
    """What one sweep found and did.

    Found tasks are `postponed` when they are not overdue; the `overdue` ones are `recovered`, `given_up`,
    or `overtaken` by another writer. `stale` index entries led to no task under way. `told` and
    `forgotten` are announcements left over. `oldest_overdue` is in seconds.
    """

    found: int = 0
    postponed: int = 0
    overdue: int = 0
    recovered: int = 0
    given_up: int = 0
    overtaken: int = 0
    stale: int = 0
    told: int = 0
    forgotten: int = 0
    oldest_overdue: float = 0


@dataclass(slots=True)
class FullSweepFigures(Tally):
    """What a full sweep read, and what it mended of the indexes."""

    tasks: int = 0
    index_rows: int = 0
    created: int = 0
    deleted: int = 0

    @property
    def mended(self) -> int:
        """Count the index rows that were wrong."""
        return self.created + self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The heartbeat of one sweep: which instance swept, when (UTC), and what came of it."""

    instance: str
    started_at: datetime
    finished_at: datetime
    figures: SweepFigures

    def properties(self) -> dict[str, Any]:
        """Give everything under one name each, zeros too."""
        counts = {field.name: getattr(self.figures, field.name) for field in fields(self.figures)}
        return {
            "instance": self.instance,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            **counts,
        }
