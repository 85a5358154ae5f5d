"""The handlers of the Scheduler's queues and of timers, around the parts that do the work. Times are UTC."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json, to_json

from functions.core.json_values import bounded
from functions.core.task_events import Rejection
from functions.messaging.agent_messages import (
    AGENT_REPLIES_QUEUE,
    MOST_REASON_CHARACTERS,
    AgentMessageError,
    AgentReply,
    ReplyOutcome,
    read_agent_message,
)
from functions.messaging.message_format import (
    MessageError,
    QueueMessage,
    named_task,
    read_scheduler_message,
)
from functions.messaging.queue_depths import PeekedQueues
from functions.messaging.queue_names import SUBMISSIONS_QUEUE
from functions.messaging.rejected_messages import RejectedMessages
from functions.messaging.scheduler_messages import SCHEDULER_REQUESTS_QUEUE
from functions.scheduler.receivers import Receivers
from functions.storage.table_contract import NoSuchTaskError, StorageError, Table
from functions.submission.event_batches import EventBatches, events_of
from functions.supervisor.intake_measurement import (
    IntakeBounds,
    IntakeMeasurement,
    read_intake,
    record_intake,
)
from functions.supervisor.sweep_progress import SUPERVISOR, SweepReport
from functions.supervisor.task_sweep import TaskSweep
from functions.telemetry.fields import Field
from functions.telemetry.instruments import FORGED_REPLIES

_log = logging.getLogger(__name__)

#: Time in which this process alerts the unreadable replies about one step once.
_ALERTED_ONCE_IN = timedelta(hours=1)
#: Age at which a Durable instance is purged, and seconds of one purge. A run that ended needs no instance.
_INSTANCES_KEPT_FOR, _PURGE_SECONDS = timedelta(days=1), 240
#: Seconds of one deletion of old rows, and rows that are deleted before the time is looked at again.
_DELETION_SECONDS, _DELETED_PAGE = 240, 5_000


@dataclass(frozen=True, slots=True)
class UnreadableReply:
    """A reply that cannot be read, with the task and the step that it names, if it does."""

    task: str | None
    step: str | None
    reason: str


class QueueHandlers:
    """Handles the messages of `scheduler-requests` and `agent-replies`.

    A message that cannot be read is recorded in `Rejected`. Every other error is raised, so that the message
    is handled again.
    """

    def __init__(
        self,
        receivers: Receivers,
        rejected: RejectedMessages,
        *,
        alert: Callable[[UnreadableReply], Awaitable[None]],
        now: Callable[[], datetime],
    ) -> None:
        self._receivers, self._rejected = receivers, rejected
        self._alert, self._now = alert, now
        self._alerted: dict[str | None, datetime] = {}

    async def scheduler_request(self, message: QueueMessage) -> None:
        """Handle a message of the application. A message about a deleted task has no effect any more."""
        try:
            request = read_scheduler_message(message.body)
        except MessageError as error:
            await self._reject(SCHEDULER_REQUESTS_QUEUE, message, str(error))
            return
        try:
            await self._receivers.receive(request)
        except NoSuchTaskError:
            _log.info("message %s: its task was deleted", message.message_id)

    async def agent_reply(self, message: QueueMessage) -> None:
        """Record the reply of an Agent. Operators are alerted about replies that cannot be read."""
        try:
            reply: AgentReply | None = read_agent_message(AgentReply, message.body)
        except AgentMessageError as error:
            await self._reject(AGENT_REPLIES_QUEUE, message, str(error))
            await self._alert_once(message, str(error))
            reply = _without_result(message.body, str(error))
        if reply is None:
            return
        try:
            applied = await self._receivers.reply(reply)
        except NoSuchTaskError:
            _log.info("task %s step %s: reply rejected: no such task", reply.task_id, reply.step)
            return
        if applied.rejection is Rejection.OTHER_START:
            spec = applied.record.order.by_name.get(reply.step)
            FORGED_REPLIES.add(1, {Field.AGENT.value: "" if spec is None else spec.agent})

    async def _reject(self, queue: str, message: QueueMessage, reason: str) -> None:
        task, step = named_task(message.body)
        _log.warning("%s: message %s rejected: %s", queue, message.message_id, reason)
        await self._rejected.reject(queue, message, reason, task=task, step=step)

    async def _alert_once(self, message: QueueMessage, reason: str) -> None:
        task, step = named_task(message.body)
        now = self._now()
        self._alerted = {name: at for name, at in self._alerted.items() if now - at < _ALERTED_ONCE_IN}
        if step not in self._alerted:
            self._alerted[step] = now
            await self._alert(UnreadableReply(task, step, bounded(reason)))


def _without_result(body: bytes, reason: str) -> AgentReply | None:
    """Return a reply whose result alone is wrong: its step is done, without a usable result."""
    try:
        content = from_json(body, allow_inf_nan=True)
        if content["outcome"] != ReplyOutcome.DONE:
            return None
        text = f"its result cannot be recorded ({reason})"[:MOST_REASON_CHARACTERS]
        fields = {name: value for name, value in content.items() if name != "result"}
        return read_agent_message(AgentReply, to_json(fields | {"no_result": text}))
    except (AgentMessageError, ValueError, TypeError, KeyError, AttributeError):
        return None  # another field is wrong, too


async def report_sweep(kind: str, sweep: Callable[[], Awaitable[SweepReport]]) -> None:
    """Sweep, and log one line; alert rules take it for a sign of life. It raises nothing."""
    try:
        report = await sweep()
    except Exception:  # noqa: BLE001 - the next sweep tries again
        _log.exception("%s failed", kind)
        return
    is_bad = report.failed or report.left or report.corrupt
    _log.log(logging.WARNING if is_bad else logging.INFO, "%s %s", kind, json.dumps(dict(report.figures)))


async def purge_instances(
    retention: timedelta, now: Callable[[], datetime], purge: Callable[[datetime], Awaitable[int]]
) -> None:
    """Purge the Durable instances of old runs. It raises nothing, as the next purge continues."""
    before = now() - min(retention, _INSTANCES_KEPT_FOR)
    try:
        async with asyncio.timeout(_PURGE_SECONDS):
            number = await purge(before)
    except Exception as error:  # noqa: BLE001 - the client raises nothing narrower
        _log.warning("Durable instances are not purged: %s", type(error).__name__)
        return
    _log.info("purge %s", json.dumps({"instances": number}))


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
    measurement = await read_intake(table)
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


async def take_events(batches: EventBatches, events: Sequence[Any]) -> None:
    """Handle a batch of the host: `azure.functions.EventHubEvent`."""
    await batches.take(events_of(events))


async def check_store(table: Table) -> None:
    """Read one row. Raises `TransientStorageError` if the store does not answer."""
    await table.read(SUPERVISOR, "sweep")
