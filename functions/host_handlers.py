"""The handlers of the Scheduler's queues, of an event hub and of the health check. Times are UTC."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.core.json_values import bounded
from functions.core.task_events import Rejection
from functions.messaging.agent_messages import (
    AGENT_REPLIES_QUEUE,
    MOST_REASON_CHARACTERS,
    AgentReply,
    ReplyOutcome,
)
from functions.messaging.message_format import MessageError, QueueMessage, read_message
from functions.messaging.rejected_messages import RejectedMessages, named_task
from functions.messaging.scheduler_messages import SCHEDULER_REQUESTS_QUEUE
from functions.messaging.task_messages import read_scheduler_message
from functions.scheduler.receivers import Receivers
from functions.storage.table_contract import NoSuchTaskError, Table
from functions.submission.event_batches import EventBatches, events_of
from functions.supervisor.sweep_progress import SUPERVISOR
from functions.telemetry.fields import Field
from functions.telemetry.instruments import FORGED_REPLIES

_log = logging.getLogger(__name__)

#: Time in which this process alerts the unreadable replies about one step once.
_ALERTED_ONCE_IN = timedelta(hours=1)


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
            reply: AgentReply | None = read_message(AgentReply, message.body)
        except MessageError as error:
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
        content = json.loads(body)  # it accepts a nested result, and half of a character
        if content["outcome"] != ReplyOutcome.DONE:
            return None
        text = f"its result cannot be recorded ({reason})"[:MOST_REASON_CHARACTERS]
        fields = {name: value for name, value in content.items() if name != "result"}
        return read_message(AgentReply, json.dumps(fields | {"no_result": text}).encode())
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None  # another field is wrong, too


async def take_events(batches: EventBatches, events: Sequence[Any]) -> None:
    """Handle a batch of the host: `azure.functions.EventHubEvent`."""
    await batches.take(events_of(events))


async def check_store(table: Table) -> None:
    """Read one row. Raises `TransientStorageError` if the store does not answer."""
    await table.read(SUPERVISOR, "sweep")
