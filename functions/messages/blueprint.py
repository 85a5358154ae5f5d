"""Functions that queues trigger: each message is processed in a span, and retried before it is given back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import azure.durable_functions as df
import azure.functions as func

from functions.messages.queues import again_for, patience_of
from functions.messages.reading import QueueMessage
from functions.pattern.errors import TransientError
from functions.pattern.waiting import within
from functions.telemetry.spans import message_span

CONNECTION = "ServiceBusConnection"


def queue_function(
    blueprint: df.Blueprint,
    name: str,
    queue: str,
    take: Callable[[func.ServiceBusMessage], Awaitable[None]],
    *,
    patience: float | None = None,
    again: bool = True,
) -> None:
    """Register a function that has `take` process each message of a queue; the rest is as for `process`."""

    @blueprint.function_name(name)
    @blueprint.service_bus_queue_trigger(arg_name="message", queue_name=queue, connection=CONNECTION)
    async def process_message(message: func.ServiceBusMessage) -> None:
        await process(queue, message, partial(take, message), patience=patience, again=again)


async def process[ResultT](
    queue: str,
    message: QueueMessage,
    work: Callable[[], Awaitable[ResultT]],
    *,
    patience: float | None = None,
    again: bool = True,
) -> ResultT:
    """Do the work on a message in a span, and `again` while it raises `TransientError`; return its result.

    Raises the last error after `patience` seconds (None: the queue's), before the message's lock expires.
    Service Bus redelivers a failed message at once, ten times: without retries here, a short outage would
    dead-letter every message.
    """
    seconds = patience_of(queue) if patience is None else patience

    last: TransientError | None = None

    async def attempt() -> ResultT:
        nonlocal last
        try:
            return await within(seconds, work())  # here, too: work that was interrupted is tried again
        except TransientError as fault:
            last = fault
            raise

    with message_span(queue, message.application_properties):
        try:
            return await within(seconds, again_for(seconds if again else 0, attempt))
        except TransientError as end:
            if last is None or last is end:
                raise
            raise TransientError(f"{end}; before that: {last}") from last
