"""What goes wrong on queues: messages that died, and messages that wait too long."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Annotated

import azure.functions as func
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from functions.messages.queues import dead_letter_queue
from functions.messages.reading import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON, content_of, each_order
from functions.operations.alerts.alerts import Alerts, lost_alert
from functions.pattern.errors import TransientError
from functions.pattern.events import MessageLost
from functions.pattern.identity import TaskId
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE, TaskIdField
from functions.pattern.ports import Ports
from functions.pattern.refusals import Refused
from functions.pattern.rejected import About, Content
from functions.pattern.texts import MAX_ERROR_BYTES, bounded

_log = logging.getLogger(__name__)


class _NamesTask(BaseModel):
    task: Annotated[TaskIdField, Field(validation_alias=AliasChoices("task_id", "id"))]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Takes dead letters; the same one again is recorded once, and alerted again."""

    ports: Ports
    alerts: Alerts

    async def take(self, queue: str, message: func.ServiceBusMessage) -> None:
        """Record that a message of `queue` died, each of its orders separately. Raises as `lose` does."""
        properties = message.application_properties or {}
        texts = (properties.get(DEAD_LETTER_REASON), properties.get(DEAD_LETTER_DESCRIPTION))
        reason = ": ".join(str(text) for text in texts if text) or "not said"
        lost = [
            self.lose(queue, each.message_id or "", content_of(each), reason) for each in each_order(message)
        ]
        results = await asyncio.gather(*lost, return_exceptions=True)
        for fault in (each for each in results if each is not None):
            raise fault

    async def lose(self, queue: str, message_id: str, content: Content, reason: str) -> None:
        """Record a lost message, also on its task; alert it unless it was one. Raises `TransientError`."""
        task = _task_named(content.body)
        lost = MessageLost(queue=queue, message_id=message_id, reason=reason)
        if task is not None:
            task = task if await self._has(task, lost) else None
        reason = bounded(reason, MAX_ERROR_BYTES)
        await self.ports.rejected.reject(
            dead_letter_queue(queue), message_id, content.body, reason, content.labels, about=About(task=task)
        )
        loss = lost_alert(queue, message_id, task, reason)
        _log.error(loss.line())
        if queue != OPERATOR_ALERTS_QUEUE:
            await self.alerts.post_recorded(loss)

    async def _has(self, task: TaskId, lost: MessageLost) -> bool:
        try:
            noted = await self.ports.store.change(task, lost)
        except TransientError:
            raise
        except Exception as error:  # noqa: BLE001 - the message is recorded, whatever is wrong with its task
            _log.warning("task %s: the loss of a message can't be noted: %s", task, error)
            return True
        return not isinstance(noted, Refused)


async def log_ages(ports: Ports) -> None:
    """Log the age of the oldest message of each queue, for an alert rule: Service Bus counts only."""
    for depth in await ports.queues.depths():
        if depth.waiting is not None and depth.waiting.oldest_at is not None:
            age = (ports.clock.now() - depth.waiting.oldest_at).total_seconds()
            # The service's clock may be ahead of ours.
            facts = {"queue": depth.queue, "oldest_seconds": max(0, round(age))}
            _log.info("messages wait %s", json.dumps(facts))


def _task_named(body: bytes) -> TaskId | None:
    try:
        return _NamesTask.model_validate_json(body).task
    except ValidationError:
        return None
