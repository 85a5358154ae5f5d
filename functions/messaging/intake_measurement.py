"""The backlog of submissions, which a timer measures and the callers' API reads. Times are UTC."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import AwareDatetime, TypeAdapter

from functions.messaging.queue_depths import Backlog, PeekedQueues
from functions.messaging.queue_names import SUBMISSIONS_QUEUE
from functions.storage.record_rows import decoded, joined, split
from functions.storage.table_contract import RowChange, StorageError, Table, write

_log = logging.getLogger(__name__)

_PARTITION, _KEY = "intake", "latest"
#: The age from which a measurement has no effect: the Supervisor may have stopped.
_VALID_FOR = timedelta(minutes=3)
#: Seconds after which callers may try again.
_SHORTEST_WAIT, _LONGEST_WAIT = 15, 300


@dataclass(frozen=True, slots=True)
class IntakeBounds:
    """The age of the oldest submission, and the bytes of the queue, above which orders are rejected."""

    most_age: timedelta
    most_bytes: int


@dataclass(frozen=True, slots=True)
class IntakeMeasurement:
    """The backlog of submissions at one time."""

    at: AwareDatetime
    backlog: Backlog

    def has_none_before(self, time: datetime, now: datetime) -> bool:
        """Return whether no submission before a time waits. An old measurement does not know."""
        return now <= self.at + _VALID_FOR and (self.backlog.oldest_at or self.at) >= time

    def retry_after(self, bounds: IntakeBounds, now: datetime) -> int:
        """Return the seconds after which an order may be sent again; 0: it is accepted."""
        oldest_at = self.backlog.oldest_at or self.at
        excess = max((self.at - oldest_at) / bounds.most_age, self.backlog.size / bounds.most_bytes)
        if excess <= 1 or now > self.at + _VALID_FOR:
            return 0
        return min(_LONGEST_WAIT, math.ceil(_SHORTEST_WAIT * excess))


_MEASUREMENT = TypeAdapter(IntakeMeasurement)


async def record_intake(table: Table, backlog: Backlog, now: datetime) -> None:
    """Record a measurement. Raises `StorageError`."""
    text = _MEASUREMENT.dump_json(IntakeMeasurement(now, backlog)).decode()
    await write(table, _PARTITION, [RowChange("upsert", _KEY, split("Measurement", text))])


async def read_intake(table: Table) -> IntakeMeasurement | None:
    """Return the newest measurement, None if there is none. Raises `StorageError`."""
    row = await table.read(_PARTITION, _KEY)
    if row is None:
        return None
    return decoded(_PARTITION, lambda: _MEASUREMENT.validate_json(joined(row, "Measurement") or ""))


async def measure_intake(
    queues: PeekedQueues, table: Table, bounds: IntakeBounds, now: Callable[[], datetime]
) -> None:
    """Record the backlog of submissions. It raises nothing: an old measurement has no effect before long."""
    backlog = await queues.backlog(SUBMISSIONS_QUEUE)
    if backlog is None:
        return
    try:
        await record_intake(table, backlog, now())
    except StorageError as error:
        _log.warning("the backlog of submissions is not recorded: %s", error)
    retry_after = IntakeMeasurement(now(), backlog).retry_after(bounds, now())
    if retry_after:
        oldest = 0 if backlog.oldest_at is None else round((now() - backlog.oldest_at).total_seconds())
        facts = {"oldest_seconds": oldest, "messages": backlog.messages, "bytes": backlog.size}
        _log.warning("orders are refused for now %s", json.dumps(facts | {"retry_after": retry_after}))
