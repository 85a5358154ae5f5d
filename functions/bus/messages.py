"""The messages that the application sends over Service Bus, each to its queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache

from functions.bus.sender import Outgoing, QueueSender
from functions.pattern.announcements import Announcement
from functions.pattern.identity import Epoch, TaskId, scheduler_id
from functions.pattern.messages import (
    AGENT_REPLIES_QUEUE,
    OPERATOR_ALERTS_QUEUE,
    AgentReply,
    AgentRequest,
    SchedulerRequest,
    SubmissionMessage,
    announcement_message,
    requests_queue,
    seconds_left,
)
from functions.pattern.ports import Clock
from functions.pattern.records import Order
from functions.pattern.states import AnnouncementKind

#: A message id holds at most 128 characters (Service Bus); 64 are the task id's.
_DIGEST_CHARACTERS = 32

#: Opens the sender of a queue.
OpenSender = Callable[[str], QueueSender]


class QueuedSubmissions:
    """Submits orders over Service Bus, which drops what a caller or a retry sends twice."""

    def __init__(self, sender: QueueSender) -> None:
        self._sender = sender

    async def submit(self, message: SubmissionMessage, order: Order) -> None:
        """Put the order on the queue; its digest in the id keeps a conflicting one from being dropped."""
        await self._sender.send(
            Outgoing(
                message_id=f"{message.task_id}.{order.digest[:_DIGEST_CHARACTERS]}",
                body=message.model_dump_json(exclude_none=True).encode(),
                subject=message.workflow,
                correlation_id=message.correlation_id,
            )
        )


class QueuedSchedulerRequests:
    """Asks for Schedulers; the message id is the instance's, so a repeat is dropped."""

    def __init__(self, sender: QueueSender) -> None:
        self._sender = sender

    async def request(self, task: TaskId, epoch: Epoch, not_before: datetime | None) -> None:
        """Ask for the Scheduler of this epoch, to start at `not_before`. Raises `TransientError`."""
        await self._sender.send(
            Outgoing(
                message_id=scheduler_id(task, epoch),
                body=SchedulerRequest(task_id=task, epoch=epoch).model_dump_json().encode(),
                subject="run",
                not_before=not_before,
            )
        )


class QueuedAnnouncements:
    """Sends notices to the orders' reply queues, and alerts to the operators'."""

    def __init__(self, open_sender: OpenSender) -> None:
        self._sender = cache(open_sender)

    async def send(self, announcement: Announcement) -> None:
        """Send the announcement to the queue it is for. Raises `TransientError`."""
        alert = announcement.kind is AnnouncementKind.ALERT
        queue = OPERATOR_ALERTS_QUEUE if alert else announcement.reply_to
        if queue is None:
            return
        await self._sender(queue).send(
            Outgoing(
                message_id=announcement.message_id,
                body=announcement_message(announcement).model_dump_json(exclude_none=True).encode(),
                subject=announcement.kind,
                correlation_id=announcement.correlation_id,
            )
        )


class QueuedAgentRequests:
    """Sends each Agent's requests to its own queue, where they live until complete-by."""

    def __init__(self, open_sender: OpenSender, *, clock: Clock) -> None:
        self._sender = cache(open_sender)
        self._clock = clock

    async def send(self, agent: str, request: AgentRequest) -> None:
        """Put the request on the Agent's queue. Raises `TransientError`."""
        await self._sender(requests_queue(agent)).send(
            Outgoing(
                message_id=f"{request.task_id}.{request.epoch}.{request.step}",
                body=request.model_dump_json().encode(),
                subject=request.direction,
                correlation_id=request.task_id,
                seconds_to_live=seconds_left(request.complete_by, self._clock.now()),
            )
        )


class QueuedAgentReplies:
    """Sends replies to the Schedulers."""

    def __init__(self, open_sender: OpenSender) -> None:
        self._sender = open_sender(AGENT_REPLIES_QUEUE)

    async def send(self, reply: AgentReply) -> None:
        """Put the reply on the Schedulers' queue. Raises `TransientError`."""
        await self._sender.send(
            Outgoing(
                message_id=f"{reply.task_id}.{reply.epoch}.{reply.step}",
                body=reply.model_dump_json().encode(),
                subject=reply.outcome,
                correlation_id=reply.task_id,
            )
        )
