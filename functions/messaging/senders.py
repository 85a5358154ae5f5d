"""Sends messages to queues of Service Bus, over a client that stays connected.

Messages that wait at the same moment are sent in one batch. An idle sender sends immediately.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError
from opentelemetry.context import Context as TraceContext
from opentelemetry.trace import SpanKind

from functions.messaging.agent_messages import AgentReply, AgentRequest
from functions.messaging.message_format import (
    PropertyValue,
    QueueMessage,
    SubmissionMessage,
    order_messages,
    short_id,
)
from functions.messaging.queue_names import AGENT_REPLIES_QUEUE, SUBMISSIONS_QUEUE, requests_queue
from functions.messaging.task_messages import SchedulerMessage, addressed
from functions.telemetry.instruments import Field
from functions.telemetry.spans import TRACEPARENT, current_traceparent, links_to, span

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusMessage
    from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

#: Seconds for one message, with the wait for its batch.
_SEND_SECONDS = 10
_CLOSE_SECONDS = 1
#: Bytes of a batch: 256 KB on the Standard tier, less the headers; and of the headers of a message.
_MOST_BATCH_BYTES, _HEADER_BYTES = 200_000, 400


class SendError(Exception):
    """Service Bus failed or did not answer. It may have the message."""


class ForbiddenQueueError(Exception):
    """A part of the application sends to a queue to which its roles may not send: a defect."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A message that waits for its batch. `share` is the part of a batch that it takes, at most 1."""

    message: ServiceBusMessage
    share: float
    result: asyncio.Future[None]


class _QueueSender:
    """Sends messages to one queue over one connection in batches, one batch after the other."""

    def __init__(self, client: ServiceBusClient, queue: str, figures: Counter[str]) -> None:
        self._client, self._queue, self._figures = client, queue, figures
        self._sender: ServiceBusSender | None = None
        self._waiting = deque[_Waiting]()
        self._worker: asyncio.Task[None] | None = None

    async def add(self, message: ServiceBusMessage, share: float) -> None:
        """Send a message with the others that wait. Raises `SendError`."""
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(message, min(1.0, share), result))
        if self._worker is None or self._worker.done():
            # It sends messages of several callers, so it has no context of a caller.
            self._worker = asyncio.create_task(self._work(), context=Context())
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await result
        except (AzureError, TimeoutError) as error:
            raise SendError(f"queue {self._queue}: {type(error).__name__}") from error

    async def _work(self) -> None:
        await asyncio.sleep(0)  # messages of the same moment join the batch
        while batch := self._next_batch():
            pending = [each.result for each in batch]
            try:
                await self._send([each.message for each in batch])
            except BaseException as error:
                name = f"queue {self._queue}: {type(error).__name__}"
                fault = error if isinstance(error, Exception) else SendError(name)
                for result in (each for each in pending if not each.done()):
                    result.set_exception(fault)
                task = asyncio.current_task()
                is_of_client = isinstance(error, asyncio.CancelledError) and not (task and task.cancelling())
                if not is_of_client and not isinstance(error, Exception):
                    raise
            for result in (each for each in pending if not each.done()):
                result.set_result(None)

    def _next_batch(self) -> list[_Waiting]:
        """Return the oldest messages that fit together, without messages whose callers have left."""
        batch: list[_Waiting] = []
        room = 1.0
        while self._waiting and not (batch and self._waiting[0].share > room):
            waiting = self._waiting.popleft()
            if not waiting.result.done():
                batch.append(waiting)
                room -= waiting.share
        return batch

    async def _send(self, messages: Sequence[ServiceBusMessage]) -> None:
        from azure.servicebus.exceptions import OperationTimeoutError  # noqa: PLC0415 - with the first message

        if self._sender is None:
            self._sender = self._client.get_queue_sender(self._queue)
        try:
            # A batch encodes each message twice, so a single message is sent without one.
            batch = list(messages) if len(messages) > 1 else messages[0]
            await self._sender.send_messages(batch, timeout=_SEND_SECONDS)
        except OperationTimeoutError:
            # The client keeps a connection that loses everything. The next message opens another one.
            sender, self._sender = self._sender, None
            with suppress(AzureError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await sender.close()
            raise
        self._figures["messages"] += len(messages)


def _encoded(message: QueueMessage, not_before: datetime | None, seconds: float | None) -> ServiceBusMessage:
    from azure.servicebus import ServiceBusMessage  # noqa: PLC0415 - with the first message

    # The client sends whole seconds as milliseconds in 32 bits, 0 as "without end". The queue has its time.
    is_sent = seconds is not None and seconds <= 2**32 // 1000
    properties: dict[str | bytes, Any] = {name: _fitting(each) for name, each in message.properties.items()}
    trace = properties.get(TRACEPARENT) or current_traceparent()
    if trace is not None:
        properties[TRACEPARENT] = trace
    return ServiceBusMessage(
        message.body,
        message_id=message.message_id,
        content_type="application/json",
        correlation_id=message.correlation_id,
        application_properties=properties or None,
        subject=message.subject,
        scheduled_enqueue_time_utc=not_before,
        time_to_live=timedelta(seconds=max(1, math.ceil(seconds or 0))) if is_sent else None,
    )


def _fitting(value: PropertyValue) -> PropertyValue:
    """Return the value of a property, as a text if it is an integer of more than 32 bits.

    The client encodes every integer in 32 bits, and a larger one fails its batch.
    """
    return str(value) if isinstance(value, int) and value not in range(-(2**31), 2**31) else value


class MessageSender:
    """Sends each message of the application to its queue. Its methods raise `SendError`.

    `may_send` returns whether the roles of this application may send to a queue. `figures` counts the
    messages that were sent.
    """

    def __init__(
        self,
        client: Callable[[], ServiceBusClient],
        *,
        may_send: Callable[[str], bool],
        now: Callable[[], datetime],
        figures: Counter[str],
    ) -> None:
        self._client, self._may_send, self._now, self._figures = client, may_send, now, figures
        self._senders: dict[str, _QueueSender] = {}

    async def send(self, message: SchedulerMessage) -> None:
        """Send a request to `scheduler-requests`, a notice to its reply queue, or an alert to operators."""
        await self.put(*addressed(message))

    async def send_request(self, agent: str, request: AgentRequest) -> None:
        """Send a request to the queue of an Agent, where it expires at its deadline."""
        message = QueueMessage(
            message_id=short_id(request.message_id),
            body=request.model_dump_json().encode(),
            subject=request.direction,
            correlation_id=request.task_id,
        )
        left = request.complete_by - self._now()
        await self.put(requests_queue(agent), message, seconds=left.total_seconds())

    async def send_reply(self, reply: AgentReply) -> None:
        """Send the reply of an Agent."""
        message = QueueMessage(
            message_id=short_id(f"{reply.task_id}.{reply.epoch}.{reply.step}"),
            body=reply.model_dump_json(exclude_defaults=True).encode(),
            subject=reply.outcome,
            correlation_id=reply.task_id,
        )
        await self.put(AGENT_REPLIES_QUEUE, message)

    async def submit(self, messages: Sequence[SubmissionMessage]) -> Sequence[BaseException | None]:
        """Submit orders of one workflow, several in a message; return the error of each order, or None."""
        groups = list(order_messages(messages, _traces_of(messages)))
        puts = (self.put(SUBMISSIONS_QUEUE, message) for message, _ in groups)
        results = await asyncio.gather(*puts, return_exceptions=True)
        return [result for (_, orders), result in zip(groups, results, strict=True) for _ in range(orders)]

    async def put(
        self,
        queue: str,
        message: QueueMessage,
        not_before: datetime | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        """Send a message to a queue, in the trace that its properties name, otherwise in the current one.

        It is delivered from `not_before` (UTC) on, and expires after `seconds`. Raises `ForbiddenQueueError`.
        """
        if queue not in self._senders:
            if not self._may_send(queue):
                raise ForbiddenQueueError(f"no role of this application sends to the queue {queue}")
            self._senders[queue] = _QueueSender(self._client(), queue, self._figures)
        share = (message.size + _HEADER_BYTES) / _MOST_BATCH_BYTES
        await self._senders[queue].add(_encoded(message, not_before, seconds), share)


def _traces_of(messages: Sequence[SubmissionMessage]) -> list[str | None]:
    """Return the trace of each order: the current one for a single order, otherwise linked to it."""
    is_single = len(messages) == 1
    parent, links = (None, []) if is_single else (TraceContext(), links_to(current_traceparent()))
    traces: list[str | None] = []
    for message in messages:
        facts = {Field.TASK: message.task_id, Field.WORKFLOW: message.workflow}
        with span("submit", facts, kind=SpanKind.PRODUCER, parent=parent, links=links):
            traces.append(current_traceparent())
    return traces
