"""The functions of timers, and their handlers around the parts that do the work. Times are UTC."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import batched

import azure.durable_functions as df
import azure.functions as func

from functions.messaging.intake_measurement import IntakeBounds, IntakeMeasurement, read_intake, record_intake
from functions.messaging.queue_depths import PeekedQueues
from functions.messaging.queue_names import SUBMISSIONS_QUEUE
from functions.messaging.request_ledger import REQUEST_PARTITIONS
from functions.operators.minute_rows import MINUTES_PARTITION
from functions.storage.index_pages import KEYS, read_entries
from functions.storage.table_contract import (
    MOST_OPERATIONS,
    CorruptRowError,
    RefusedChanges,
    RowChange,
    RowQuery,
    StorageError,
    Table,
)
from functions.supervisor.sweep_progress import SweepReport
from functions.supervisor.task_sweep import TaskSweep

_log = logging.getLogger(__name__)

#: States of Durable instances that can be purged.
_ENDED = [
    df.OrchestrationRuntimeStatus.Completed,
    df.OrchestrationRuntimeStatus.Failed,
    df.OrchestrationRuntimeStatus.Terminated,
]
#: A time before the creation of any instance.
_FIRST_TIME = datetime(2020, 1, 1, tzinfo=UTC)
#: Age at which a Durable instance is purged, and seconds of one purge. A run that ended needs no instance.
_INSTANCES_KEPT_FOR, _PURGE_SECONDS = timedelta(days=1), 240
#: Seconds of one deletion of old rows, and rows that are deleted before the time is looked at again.
_DELETION_SECONDS, _DELETED_PAGE = 240, 5_000


async def report_sweep(kind: str, sweep: Callable[[], Awaitable[SweepReport]]) -> None:
    """Sweep, and log one line; alert rules take it for a sign of life. It raises nothing."""
    try:
        report = await sweep()
    except Exception:  # noqa: BLE001 - the next sweep tries again
        _log.exception("%s failed", kind)
        return
    is_bad = report.failed or report.left or report.corrupt
    _log.log(logging.WARNING if is_bad else logging.INFO, "%s %s", kind, json.dumps(dict(report.figures)))


#: Deletes at most a number of rows that were written before a time (UTC), and returns their number.
type DeleteBefore = Callable[[datetime, int], Awaitable[int]]


async def delete_old_rows(
    kinds: Mapping[str, tuple[timedelta, DeleteBefore]], now: Callable[[], datetime]
) -> None:
    """Delete the rows of each kind that are older than its retention, and log one line.

    It raises nothing, as the next run continues.
    """
    figures: dict[str, int] = {}
    for kind, (retention, delete) in kinds.items():
        try:
            async with asyncio.timeout(_DELETION_SECONDS / len(kinds)):
                while number := await delete(now() - retention, _DELETED_PAGE):
                    figures[kind] = figures.get(kind, 0) + number
        except (StorageError, TimeoutError) as error:
            _log.warning("old rows of %s are not deleted: %s", kind, error)
    _log.info("old rows %s", json.dumps(figures))


async def delete_minutes_before(table: Table, before: datetime, most: int) -> int:
    """Delete at most `most` counts of earlier minutes; return their number."""
    return await _delete_rows(table, MINUTES_PARTITION, "", before, most)


async def delete_requests_before(table: Table, before: datetime, most: int) -> int:
    """Delete at most `most` requests whose deadline was on an earlier day; return their number."""
    deleted = 0
    for partition in REQUEST_PARTITIONS:
        if deleted == most:
            break
        deleted += await _delete_rows(table, partition, "!", before, most - deleted)
    return deleted


async def _delete_rows(table: Table, partition: str, prefix: str, before: datetime, most: int) -> int:
    """Delete the rows whose keys are a prefix and an earlier time. With a prefix, each names another row."""
    query = RowQuery(prefix, f"{prefix}{before:%Y%m%dT%H%M}", columns=KEYS, most=min(most, 1000))
    page = await read_entries(table, partition, query, lambda row: str(row["RowKey"]))
    deleted = 0
    for some in batched(page.entries, MOST_OPERATIONS // 2, strict=False):
        others = (key.partition("|")[2] for key in some if prefix)
        changes = [RowChange("delete", key) for key in (*some, *others)]
        if isinstance(await table.send(partition, changes), RefusedChanges):
            break  # another instance deletes them at this moment
        deleted += len(some)
    return deleted


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


async def sweep_once(
    sweep: TaskSweep, table: Table, bounds: IntakeBounds, now: Callable[[], datetime]
) -> SweepReport:
    """Sweep, and wait longer for runs that have not begun while the backlog of submissions is large.

    Raises `StorageError`.
    """
    try:
        measurement = await read_intake(table)
    except CorruptRowError as error:  # the next measurement replaces it
        measurement = None
        _log.warning("the measurement of the backlog is not used: %s", error)
    is_overloaded = measurement is not None and measurement.retry_after(bounds, now()) > 0
    return await sweep.run(is_overloaded=is_overloaded)


async def log_queue_ages(queues: PeekedQueues, now: Callable[[], datetime]) -> None:
    """Log the age of the oldest message of each queue for an alert rule. Service Bus counts only."""
    for depth in await queues.depths():
        if depth.waiting is not None and depth.waiting.oldest_at is not None:
            age = (now() - depth.waiting.oldest_at).total_seconds()
            # The clock of the service may be ahead.
            _log.info(
                "messages wait %s", json.dumps({"queue": depth.queue, "oldest_seconds": max(0, round(age))})
            )


def timer_function(name: str, schedule: str, run: Callable[[], Awaitable[None]]) -> func.Blueprint:
    """Register a function that runs at the times of a schedule (NCRONTAB, UTC)."""
    blueprint = func.Blueprint()

    @blueprint.function_name(name)
    @blueprint.timer_trigger(arg_name="timer", schedule=schedule)
    async def on_time(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host's signature
        await run()

    return blueprint


def purge_function(schedule: str, retention: timedelta, now: Callable[[], datetime]) -> func.Blueprint:
    """Register the timer that purges the Durable instances of old runs.

    It raises nothing, as the next purge continues.
    """
    blueprint = func.Blueprint()

    @blueprint.function_name("purge")
    @blueprint.timer_trigger(arg_name="timer", schedule=schedule)
    @blueprint.durable_client_input(client_name="client")
    async def run(timer: func.TimerRequest, client: df.DurableOrchestrationClient) -> None:  # noqa: ARG001 - the host's signature
        before = now() - min(retention, _INSTANCES_KEPT_FOR)
        try:
            async with asyncio.timeout(_PURGE_SECONDS):
                result = await client.purge_instance_history_by(_FIRST_TIME, before, _ENDED)
        except Exception as error:  # noqa: BLE001 - the client raises nothing narrower
            _log.warning("Durable instances are not purged: %s", type(error).__name__)
            return
        _log.info("purge %s", json.dumps({"instances": int(result.instances_deleted)}))

    return blueprint
