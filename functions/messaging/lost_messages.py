"""Messages that no function handles any more: dead letters, and messages that failed too often."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace

from functions.core.json_values import bounded
from functions.messaging.message_format import QueueMessage, each_order
from functions.messaging.queue_names import OPERATOR_ALERTS_QUEUE, dead_letter_queue
from functions.messaging.rejected_messages import RejectedMessages, named_task

_log = logging.getLogger(__name__)

#: The properties in which Service Bus says why a message is a dead letter.
_REASON, _DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A message that no function handles any more, with the reason. `task` is the task that it names."""

    queue: str
    message_id: str
    task: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class LostMessages:
    """Records, logs and alerts messages that are lost. A repetition is recorded once, and alerted again."""

    rejected: RejectedMessages
    alert: Callable[[LostMessage], Awaitable[None]]

    async def take(self, queue: str, message: QueueMessage) -> None:
        """Handle a dead letter of a queue, each of its orders separately. Raises `StorageError`."""
        texts = (message.properties.get(name) for name in (_REASON, _DESCRIPTION))
        reason = ": ".join(str(text) for text in texts if text) or "no reason given"
        lost = (self.lose(queue, each, reason) for each in each_order(message))
        results = await asyncio.gather(*lost, return_exceptions=True)
        for error in (each for each in results if each is not None):
            raise error

    async def lose(self, queue: str, message: QueueMessage, reason: str) -> None:
        """Record a lost message with the task that it names, and alert it unless it is an alert.

        Raises `StorageError`; nothing is alerted then.
        """
        reason = bounded(reason)
        task, step = named_task(message.body)
        kept = {
            name: each for name, each in message.properties.items() if name not in {_REASON, _DESCRIPTION}
        }
        await self.rejected.reject(
            dead_letter_queue(queue), replace(message, properties=kept), reason, task=task, step=step
        )
        lost = LostMessage(queue, message.message_id, task, reason)
        _log.error("message lost %s", json.dumps(asdict(lost)))
        if queue != OPERATOR_ALERTS_QUEUE:
            await self.alert(lost)
