"""Reads what died on a queue: records the loss, logs it and tells the operator. No message dies unseen."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from functions.operations.alert_formats import Alert, lost_alert
from functions.pattern.events import MessageLost
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE, TaskIdField
from functions.pattern.store_ports import RejectedMessages, StateStore, Stored

#: The queues whose dead letters are read: all that `infra/queues.json` defines.
QUEUES = (
    "submissions",
    "scheduler-requests",
    "agent-payment-requests",
    "agent-replies",
    "operator-alerts",
    "notices-demo",
)

#: Application properties in which Service Bus says why a message died.
_REASON = "DeadLetterReason"
_DESCRIPTION = "DeadLetterErrorDescription"

_log = logging.getLogger(__name__)


class LossAlerts(Protocol):
    """Tells the operator of lost messages."""

    async def alert_lost(self, loss: Alert) -> None:
        """Tell of a lost message; it must not raise when it can't be told."""


class _NamesTask(BaseModel):
    """What messages have in common: they name the task that they are about."""

    task: Annotated[TaskIdField, Field(validation_alias=AliasChoices("task_id", "order_id"))]


class DeadLetters:
    """Takes dead letters. The same one again is recorded once, and told again."""

    def __init__(self, *, store: StateStore, rejected: RejectedMessages, alerts: LossAlerts) -> None:
        self._store = store
        self._rejected = rejected
        self._alerts = alerts

    async def take(self, queue: str, message_id: str, body: bytes, properties: Mapping[str, Any]) -> None:
        """Record that a message of `queue` died: what it was, and on the task that it was about.

        A lost alert is told only by the log, or it had no end. Raises `TransientError` when it can't be
        recorded, so that it stays where it is.
        """
        reason = _reason(properties)
        task = await self._task(body)
        await self._rejected.reject(dead_letter_queue(queue), message_id, body, reason)
        if task is not None:
            await self._store.change(task, MessageLost(queue=queue, message_id=message_id, reason=reason))
        loss = lost_alert(queue, message_id, None if task is None else task.record.order.task, reason)
        _log.error(loss.line())
        if queue != OPERATOR_ALERTS_QUEUE:
            await self._alerts.alert_lost(loss)

    async def _task(self, body: bytes) -> Stored | None:
        """Read the task that the message was about, when there is one."""
        try:
            task = _NamesTask.model_validate_json(body).task
        except ValidationError:
            return None
        return await self._store.load(task)


def dead_letter_queue(queue: str) -> str:
    """Name the dead-letter queue of a queue, as Service Bus does."""
    return f"{queue}/$DeadLetterQueue"


def _reason(properties: Mapping[str, Any]) -> str:
    texts = (properties.get(_REASON), properties.get(_DESCRIPTION))
    return ": ".join(str(text) for text in texts if text) or "not said"
