"""What goes wrong on queues: messages that died, and messages that wait too long."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import azure.functions as func
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from functions.messages.queues import dead_letter_queue
from functions.messages.reading import (
    DEAD_LETTER_DESCRIPTION,
    DEAD_LETTER_REASON,
    content_of,
    each_order,
    shown_id,
    tokens_in,
)
from functions.operations.alerts.alerts import Alerts, lost_alert
from functions.pattern.errors import IllegalTransitionError, UnreadableError, UnwritableError
from functions.pattern.events import MessageLost
from functions.pattern.identity import TaskId
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE, TaskIdField
from functions.pattern.ports import Ports
from functions.pattern.refusals import Refused
from functions.pattern.rejected import About, Content
from functions.pattern.texts import MAX_ERROR_BYTES, bounded

_log = logging.getLogger(__name__)


class _NamesTask(BaseModel):
    """What messages have in common: they name the task that they are about. Some have a token."""

    task: Annotated[TaskIdField, Field(validation_alias=AliasChoices("task_id", "id"))]
    token: Any = None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Takes dead letters, so that no message dies unseen.

    The same one again is recorded once, and alerted again.
    """

    ports: Ports
    alerts: Alerts

    async def take(self, queue: str, message: func.ServiceBusMessage) -> None:
        """Record that a message of `queue` died, with the reason that Service Bus gives.

        Of one that holds several orders, each is lost by itself. Raises as `lose` does, after all were tried.
        """
        reason = _reason(message.application_properties or {})
        lost = [
            self.lose(queue, each.message_id or "", content_of(each), reason) for each in each_order(message)
        ]
        results = await asyncio.gather(*lost, return_exceptions=True)
        for fault in (each for each in results if each is not None):
            raise fault

    async def lose(self, queue: str, message_id: str, content: Content, reason: str) -> None:
        """Record that a message of `queue` is lost: what it was, and on the task that it was about.

        A lost alert is only logged, since another alert could be lost too. Raises `TransientError` when the
        message can't be recorded, so that it stays where it is.
        """
        task, token = _named(content.body)
        message_id = shown_id(message_id, token, *tokens_in(content.body.decode(errors="replace")))
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
        """Note the loss on its task; return whether there is such a task. Raises `TransientError`."""
        try:
            noted = await self.ports.store.change(task, lost)
        except (UnreadableError, UnwritableError, IllegalTransitionError) as error:
            _log.warning("task %s: the loss of a message can't be noted: %s", task, error)
            return True
        return not isinstance(noted, Refused)


async def log_ages(ports: Ports) -> None:
    """Log a line for each queue on which messages wait; an alert rule reads the age of the oldest.

    Service Bus measures how many messages wait, not since when.
    """
    for depth in await ports.queues.depths():
        if depth.waiting is not None and depth.waiting.oldest_at is not None:
            age = (ports.clock.now() - depth.waiting.oldest_at).total_seconds()
            # The service's clock may be ahead of ours.
            facts = {"queue": depth.queue, "oldest_seconds": max(0, round(age))}
            _log.info("messages wait %s", json.dumps(facts))


def _named(body: bytes) -> tuple[TaskId | None, object]:
    """Read the id of the task that a message was about, when it names one, and its token."""
    try:
        named = _NamesTask.model_validate_json(body)
    except ValidationError:
        return None, None
    return named.task, named.token


def _reason(properties: Mapping[str, Any]) -> str:
    texts = (properties.get(DEAD_LETTER_REASON), properties.get(DEAD_LETTER_DESCRIPTION))
    return ": ".join(str(text) for text in texts if text) or "not said"
