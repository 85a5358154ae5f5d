"""The messages that the application sends over Service Bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache

from functions.bus.sender import Outgoing, QueueSender
from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.announcements import Announcement
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.messages import (
    AGENT_REPLIES_QUEUE,
    OPERATOR_ALERTS_QUEUE,
    SCHEDULER_REQUESTS_QUEUE,
    SUBMISSIONS_QUEUE,
    SchedulerRequest,
    SubmissionMessage,
    announcement_message,
    requests_queue,
    seconds_left,
)
from functions.pattern.ports import Clock
from functions.pattern.records import Task
from functions.pattern.rejected import Content
from functions.pattern.states import AnnouncementKind
from functions.pattern.submission_groups import SubmissionGroup, groups_of
from functions.telemetry.spans import TRACEPARENT, current_traceparent


class QueuedMessages:
    """Sends each message to its queue, which drops what is sent twice. Its methods raise `TransientError`."""

    def __init__(self, open_sender: Callable[[str], QueueSender], clock: Clock) -> None:
        self._sender = cache(open_sender)
        self._clock = clock

    async def submit(self, message: SubmissionMessage) -> None:
        """Submit an order."""
        outgoing = Outgoing(
            message_id=message.message_id,
            body=message.written,
            subject=message.workflow,
            correlation_id=message.correlation_id,
        )
        await self._sender(SUBMISSIONS_QUEUE).send(outgoing)

    async def submit_all(
        self, messages: Sequence[SubmissionMessage], traces: Sequence[str | None] = ()
    ) -> Sequence[BaseException | None]:
        """Submit orders, several in a message; give what went wrong with each."""
        groups = list(groups_of(messages, traces))
        results = await asyncio.gather(*map(self._submit_group, groups), return_exceptions=True)
        return [result for group, result in zip(groups, results, strict=True) for _ in range(group.orders)]

    async def _submit_group(self, group: SubmissionGroup) -> None:
        outgoing = Outgoing(message_id=group.message_id, body=group.body, subject=group.subject)
        await self._sender(SUBMISSIONS_QUEUE).send(outgoing)

    async def request(self, task: Task, queued: Sequence[StepName]) -> None:
        """Ask for the Scheduler of the task's epoch, to start at its `not_before`."""
        request = SchedulerRequest(
            task_id=task.order_id, epoch=task.epoch, queued=tuple(queued), run=task.run
        )
        # What is sent again on purpose has an id of its own, or the queue would drop it as a repeat.
        again = f".r{task.extended.asked}" if task.extended is not None and task.is_extended else ""
        outgoing = Outgoing(
            message_id=scheduler_id(task.order_id, task.epoch, task.run) + again,
            body=request.model_dump_json(exclude_none=True).encode(),
            subject="run",
            not_before=task.not_before,
        )
        await self._sender(SCHEDULER_REQUESTS_QUEUE).send(outgoing)

    async def wake(self, task: Task, step: StepName) -> None:
        """Have the Scheduler that holds the task hear of a step's end."""
        request = SchedulerRequest(task_id=task.order_id, epoch=task.epoch, run=task.run, wake=step)
        outgoing = Outgoing(
            # Whatever the step's name: "wake" tells it from the queue's other messages about the task.
            message_id=f"{scheduler_id(task.order_id, task.epoch, task.run)}.wake.{step}",
            body=request.model_dump_json(exclude_none=True).encode(),
            subject="wake",
        )
        await self._sender(SCHEDULER_REQUESTS_QUEUE).send(outgoing)

    async def send(self, announcement: Announcement) -> None:
        """Send a notice to the order's reply queue, an alert to the operators', an end to the Schedulers'."""
        queue, body = _addressed(announcement)
        if queue is None:
            return
        outgoing = Outgoing(
            message_id=announcement.message_id,
            body=body,
            subject=announcement.kind,
            correlation_id=announcement.correlation_id,
        )
        await self._sender(queue).send(outgoing)

    async def put(
        self, queue: str, message_id: str, content: Content, *, not_before: datetime | None = None
    ) -> None:
        """Put a message on a queue again, in the trace in which it was sent first, if it says which."""
        labels = content.labels
        properties = dict(labels.properties)
        traceparent = properties.pop(TRACEPARENT, None)
        outgoing = Outgoing(
            message_id=message_id,
            body=content.body,
            subject=labels.subject,
            correlation_id=labels.correlation_id,
            not_before=not_before,
            traceparent=current_traceparent() if traceparent is None else str(traceparent),
            properties=properties,
        )
        await self._sender(queue).send(outgoing)

    async def ask(self, agent: str, request: AgentRequest) -> None:
        """Put a request on the Agent's queue, where it lives until complete-by."""
        outgoing = Outgoing(
            message_id=request.message_id,
            body=request.model_dump_json().encode(),
            subject=request.direction,
            correlation_id=request.task_id,
            seconds_to_live=seconds_left(request.complete_by, self._clock.now()),
        )
        await self._sender(requests_queue(agent)).send(outgoing)

    async def reply(self, reply: AgentReply) -> None:
        """Put an Agent's reply on the Schedulers' queue."""
        outgoing = Outgoing(
            message_id=f"{reply.task_id}.{reply.epoch}.{reply.step}",
            body=reply.model_dump_json(exclude_defaults=True).encode(),
            subject=reply.outcome,
            correlation_id=reply.task_id,
        )
        await self._sender(AGENT_REPLIES_QUEUE).send(outgoing)


def _addressed(announcement: Announcement) -> tuple[str | None, bytes]:
    if announcement.kind is AnnouncementKind.ENDED:
        ended = SchedulerRequest(task_id=announcement.task, epoch=announcement.epoch, ended=True)
        return SCHEDULER_REQUESTS_QUEUE, ended.model_dump_json(exclude_none=True).encode()
    alert = announcement.kind is AnnouncementKind.ALERT
    body = announcement_message(announcement).model_dump_json(exclude_none=True).encode()
    return OPERATOR_ALERTS_QUEUE if alert else announcement.reply_to, body
