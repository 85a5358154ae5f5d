"""The handling of received messages: retries within the lock, and messages that fail.

The host settles a batch only as a whole. So one message that fails is sent to its queue again, after growing
waits, and its properties count the failures. A message that cannot be handled is recorded in `Rejected`, and
operators are alerted.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from random import random

from functions.core.error_texts import error_text
from functions.core.record import NotDeployedError
from functions.messaging.message_format import (
    DIGEST_CHARACTERS,
    MOST_MESSAGE_BYTES,
    QueueMessage,
    each_order,
    size_of,
)
from functions.messaging.queue_names import handling_seconds
from functions.messaging.senders import SendError
from functions.storage.table_contract import StorageError, TransientStorageError
from functions.telemetry.spans import message_span

_log = logging.getLogger(__name__)

#: The property that counts how often a message was put back.
_PUT_BACK = "counted.put_back"
#: The property that counts how often a message failed since then.
_ATTEMPTS = "counted.attempts"
#: Bytes of properties that a copy keeps: a queue accepts 64 KB, and an event hub more.
_MOST_PROPERTY_BYTES = 32 * 1024
#: Seconds of the longest wait before the second try. It doubles with each try.
_FIRST_WAIT = 0.2
#: Seconds of the longest wait before any try.
_LONGEST_WAIT = 5.0
_MOST_DOUBLINGS = 10
#: Seconds in which a message is sent to its queue again, or recorded: the rest of its lock.
_RETURN_SECONDS = 12
#: Deliveries of a message, as many as the queues allow.
_MOST_ATTEMPTS = 10

#: Records a message of a queue as lost, with the reason.
type Lose = Callable[[str, QueueMessage, str], Awaitable[None]]
#: Sends a message to a queue, which delivers it from a time (UTC) on. Raises `SendError`.
type Put = Callable[[str, QueueMessage, datetime], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """The numbers of times that a message was sent to its queue again: to wait, and after a failure."""

    put_back: int = 0
    attempts: int = 0

    @classmethod
    def of(cls, message: QueueMessage) -> DeliveryCounts:
        """Return the counts in the properties of a message. A message of another sender has none."""
        counts = (message.properties.get(name) for name in (_PUT_BACK, _ATTEMPTS))
        return cls(*(each if type(each) is int and each > 0 else 0 for each in counts))


def copy_of(message: QueueMessage, counts: DeliveryCounts, resends: int = 0) -> QueueMessage:
    """Return a message to be sent again with these counts, `resends` times by operators.

    Each repetition has the same new id, so duplicate detection accepts the first one. The body is a part of
    the id, because a sender may use one id twice. A message that is nearly too large loses its labels.
    """
    marks = repr((message.message_id, message.body, counts.put_back, counts.attempts, resends))
    digest = hashlib.sha256(marks.encode()).hexdigest()[:DIGEST_CHARACTERS]
    is_large = len(message.body) <= MOST_MESSAGE_BYTES < message.size
    if is_large or size_of(message.properties) > _MOST_PROPERTY_BYTES:
        message = replace(message, subject=None, correlation_id=None, properties={})
    counted = {_PUT_BACK: counts.put_back, _ATTEMPTS: counts.attempts}
    properties = {name: each for name, each in message.properties.items() if name not in counted}
    properties |= {name: count for name, count in counted.items() if count}
    message_id = f"{message.message_id[:40]}.{digest}".lstrip(".")
    return replace(message, message_id=message_id, properties=properties)


class NotHandledError(Exception):
    """A message was not handled in time, or its handling was interrupted. A retry may succeed."""


#: Errors after which a message is handled again.
TRANSIENT_ERRORS = (TransientStorageError, SendError, NotDeployedError, NotHandledError)


async def within[ResultT](seconds: float, work: Awaitable[ResultT]) -> ResultT:
    """Await work for a number of seconds. Raises its errors, and `NotHandledError`.

    A cancelled future that the work awaits is an error of the work, and does not cancel its caller.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise NotHandledError(f"not done within {seconds:g} s") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise NotHandledError("interrupted: a future that it awaits was cancelled") from error


async def handle[ResultT](
    queue: str,
    message: QueueMessage,
    work: Callable[[], Awaitable[ResultT]],
    *,
    seconds: float | None = None,
) -> ResultT:
    """Do the work for a message in a span of its sender's trace, and retry it after transient errors.

    Service Bus delivers a failed message again immediately, and only ten times. So a short fault of a service
    is retried here. Raises the last error after `seconds`, by default within the lock of the queue.
    """
    limit = handling_seconds(queue) if seconds is None else seconds
    time = asyncio.get_running_loop().time
    ends_at, last, tries = time() + limit, None, 0
    with message_span(queue, message.properties):
        while True:
            try:
                return await within(ends_at - time(), work())
            except TRANSIENT_ERRORS as error:
                longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries, _MOST_DOUBLINGS))
                wait = longest * random()  # noqa: S311 - it spreads retries
                if time() + wait >= ends_at:
                    if last is None or not isinstance(error, NotHandledError):
                        raise
                    raise NotHandledError(f"not done within {limit:g} s; before that: {last}") from last
                last, tries = error, tries + 1
                await asyncio.sleep(wait)


@dataclass(frozen=True, slots=True)
class QueueBatches:
    """Handles batches of one queue. `now` returns the time (UTC)."""

    queue: str
    put: Put
    lose: Lose
    now: Callable[[], datetime]

    async def handle(
        self, messages: Sequence[QueueMessage], work: Callable[[QueueMessage], Awaitable[object]]
    ) -> None:
        """Do the work for each order of each message, and send each one that fails to the queue again.

        Raises `ExceptionGroup` if all fail, or if one cannot be sent: the host delivers the batch again.
        """
        orders = [order for message in messages for order in each_order(message)]
        handled = (handle(self.queue, each, partial(work, each)) for each in orders)
        results = await asyncio.gather(*handled, return_exceptions=True)
        ended = zip(orders, results, strict=True)
        failed = [(order, as_error(each)) for order, each in ended if isinstance(each, BaseException)]
        left = [error for _, error in failed]
        if len(failed) < len(orders):
            returns = (within(_RETURN_SECONDS, self._put_back(order, error)) for order, error in failed)
            results = await asyncio.gather(*returns, return_exceptions=True)
            left = [as_error(each) for each in results if isinstance(each, BaseException)]
        if left:
            raise ExceptionGroup("messages that were not handled are delivered again", left)

    async def _put_back(self, message: QueueMessage, error: Exception) -> None:
        """Send a message again under another id, because duplicate detection would drop its own id."""
        before = DeliveryCounts.of(message)
        attempts, kind = before.attempts + 1, type(error).__name__
        if attempts >= _MOST_ATTEMPTS:
            # The text of another error may quote the payload.
            has_own_text = isinstance(error, StorageError | SendError | NotHandledError)
            reason = error_text(error) if has_own_text else kind
            await self.lose(self.queue, message, f"failed {attempts} times: {reason}")
            return
        _log.warning("message %s failed and is sent again: %s", message.message_id, kind, exc_info=error)
        copy = copy_of(message, replace(before, attempts=attempts))
        delay = timedelta(seconds=min(60, 2**attempts))
        await self.put(self.queue, copy, self.now() + delay)


def as_error(result: object) -> Exception:
    """Return the error of a gathered result. A cancellation means that the work was not done."""
    if isinstance(result, Exception):
        return result
    return NotHandledError(f"interrupted: {type(result).__name__}")
