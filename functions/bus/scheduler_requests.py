"""Asks for Schedulers on the queue `scheduler-requests`."""

from __future__ import annotations

from datetime import datetime

from functions.bus.sender import Outgoing, QueueSender
from functions.pattern.identity import Epoch, TaskId, scheduler_id
from functions.pattern.messages import SchedulerRequest


class QueuedSchedulerRequests:
    """Requests over Service Bus; the message id is the instance's, so a repeat is dropped."""

    def __init__(self, sender: QueueSender) -> None:
        self._sender = sender

    async def request(self, task: TaskId, epoch: Epoch, not_before: datetime | None) -> None:
        """Ask for the Scheduler of this epoch, to be heard at `not_before`. Raises `TransientError`."""
        await self._sender.send(
            Outgoing(
                message_id=scheduler_id(task, epoch),
                body=SchedulerRequest(task_id=task, epoch=epoch).model_dump_json().encode(),
                subject="run",
                not_before=not_before,
            )
        )
