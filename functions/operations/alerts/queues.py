"""What goes wrong on queues: messages that died, and messages that wait too long."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from functions.operations.alerts.alerts import Alerts, lost_alert
from functions.pattern.events import MessageLost, Refused
from functions.pattern.identity import TaskId
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE, TaskIdField
from functions.pattern.ports import Ports

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


class _NamesTask(BaseModel):
    """What messages have in common: they name the task that they are about."""

    task: Annotated[TaskIdField, Field(validation_alias=AliasChoices("task_id", "id"))]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Takes dead letters, so that no message dies unseen.

    The same one again is recorded once, and alerted again.
    """

    ports: Ports
    alerts: Alerts

    async def take(self, queue: str, message_id: str, body: bytes, properties: Mapping[str, Any]) -> None:
        """Record that a message of `queue` died: what it was, and on the task that it was about.

        A lost alert is only logged, since another alert could be lost too. Raises `TransientError` when the
        message can't be recorded, so that it stays where it is.
        """
        reason = _reason(properties)
        task = _task(body)
        if task is not None:
            lost = MessageLost(queue=queue, message_id=message_id, reason=reason)
            if isinstance(await self.ports.store.change(task, lost), Refused):
                task = None  # there is no such task
        await self.ports.rejected.reject(dead_letter_queue(queue), message_id, body, reason)
        loss = lost_alert(queue, message_id, task, reason)
        _log.error(loss.line())
        if queue != OPERATOR_ALERTS_QUEUE:
            await self.alerts.alert_lost(loss)


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


def dead_letter_queue(queue: str) -> str:
    """Name the dead-letter queue of a queue, as Service Bus does."""
    return f"{queue}/$DeadLetterQueue"


def _task(body: bytes) -> TaskId | None:
    """Read the id of the task that a message was about, when it names one."""
    try:
        return _NamesTask.model_validate_json(body).task
    except ValidationError:
        return None


def _reason(properties: Mapping[str, Any]) -> str:
    texts = (properties.get(_REASON), properties.get(_DESCRIPTION))
    return ": ".join(str(text) for text in texts if text) or "not said"
