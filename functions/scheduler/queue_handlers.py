"""The handlers of the Scheduler's queues. Times are UTC."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from functions.core.json_values import bounded
from functions.core.task_events import Rejection
from functions.messaging.agent_messages import MOST_REASON_CHARACTERS, AgentReply, ReplyOutcome
from functions.messaging.message_format import MessageError, QueueMessage, read_message
from functions.messaging.queue_names import AGENT_REPLIES_QUEUE, SCHEDULER_REQUESTS_QUEUE
from functions.messaging.rejected_messages import RejectedMessages, named_task
from functions.messaging.task_messages import read_scheduler_message
from functions.scheduler.receivers import Receivers
from functions.storage.table_contract import NoSuchTaskError
from functions.telemetry.instruments import OTHER_START_REPLIES, Field

_log = logging.getLogger(__name__)

#: Time in which this process alerts the unreadable replies about one step once.
_ALERTED_ONCE_IN = timedelta(hours=1)


class QueueHandlers:
    """Handles the messages of `scheduler-requests` and `agent-replies`.

    A message that cannot be read is recorded in `Rejected`. Every other error is raised, so that the message
    is handled again. `alert` is `Alerts.alert_rejected`.
    """

    def __init__(
        self,
        receivers: Receivers,
        rejected: RejectedMessages,
        *,
        alert: Callable[..., Awaitable[None]],
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
            task, step = await self._reject(AGENT_REPLIES_QUEUE, message, str(error))
            if self._is_first(step):
                await self._alert(AGENT_REPLIES_QUEUE, bounded(str(error)), task=task, step=step)
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
            OTHER_START_REPLIES.add(1, {Field.AGENT.value: "" if spec is None else spec.agent})

    async def _reject(self, queue: str, message: QueueMessage, reason: str) -> tuple[str | None, str | None]:
        """Record a message, and return the task and the step that it names."""
        task, step = named_task(message.body)
        _log.warning("%s: message %s rejected: %s", queue, message.message_id, reason)
        await self._rejected.reject(queue, message, reason, task=task, step=step)
        return task, step

    def _is_first(self, step: str | None) -> bool:
        """Return whether no unreadable reply about a step was alerted in the last hour."""
        now = self._now()
        self._alerted = {name: at for name, at in self._alerted.items() if now - at < _ALERTED_ONCE_IN}
        is_first = step not in self._alerted
        self._alerted.setdefault(step, now)
        return is_first


def _without_result(body: bytes, reason: str) -> AgentReply | None:
    """Return a reply whose result alone is wrong: its step is done, without a usable result."""
    try:
        # It accepts nested results, half of a character, and more digits than Python converts.
        content = json.loads(body, parse_int=lambda digits: int(digits[:40]))
        if content["outcome"] != ReplyOutcome.DONE:
            return None
        text = f"its result cannot be recorded ({reason})"[:MOST_REASON_CHARACTERS]
        fields = {name: value for name, value in content.items() if name != "result"}
        return read_message(AgentReply, json.dumps(fields | {"no_result": text}).encode())
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None  # another field is wrong, too
