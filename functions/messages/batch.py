"""A batch of messages: one that fails is put back alone, as a batch can only be settled whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from functions.messages.blueprint import process
from functions.messages.reading import QueueMessage, content_of
from functions.pattern.errors import TransientError
from functions.pattern.ports import Clock
from functions.pattern.rejected import Content, Postbox
from functions.pattern.sent_again import Counts
from functions.pattern.waiting import within

#: How often a message is taken before it is given up: as often as Service Bus delivers one.
_MOST_ATTEMPTS = 10
_LONGEST_DELAY = 60
#: Seconds in which a message is put back: what the work leaves of its lock.
_RETURN_SECONDS = 12

_log = logging.getLogger(__name__)

#: Records and alerts that a message of a queue is given up: its id, what it holds, and the reason.
type GiveUp = Callable[[str, str, Content, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Batches:
    """Takes the messages of one queue by batches; a bad one never comes back together with its neighbours."""

    queue: str
    postbox: Postbox
    clock: Clock
    give_up: GiveUp

    async def take(
        self,
        messages: Sequence[QueueMessage],
        work: Callable[[QueueMessage], Awaitable[None]],
    ) -> None:
        """Do the work on each message; what fails beside others that did not is put back.

        Raises what went wrong when nothing could be taken, or not be put back: then the batch is redelivered.
        """
        results = await asyncio.gather(*(self._one(each, work) for each in messages), return_exceptions=True)
        failed = {number: _as_error(each) for number, each in enumerate(results) if each is not None}
        if len(failed) < len(messages):
            returns = (
                within(_RETURN_SECONDS, self._put_back(messages[number], error))
                for number, error in failed.items()
            )
            left = await asyncio.gather(*returns, return_exceptions=True)
            failed = {number: _as_error(each) for number, each in enumerate(left) if each is not None}
        if failed:
            raise ExceptionGroup("messages that could not be taken are delivered again", [*failed.values()])

    async def _one(self, message: QueueMessage, work: Callable[[QueueMessage], Awaitable[None]]) -> None:
        await process(self.queue, message, partial(work, message))

    async def _put_back(self, message: QueueMessage, error: Exception) -> None:
        """Send a message again, later each time, under a new id: its own would be taken for a duplicate."""
        content, known_as = content_of(message), message.message_id or ""
        counts = Counts.of(content).once_failed()
        attempts = counts.attempts
        reason = f"{type(error).__name__}: {error}"
        if attempts >= _MOST_ATTEMPTS:
            await self.give_up(self.queue, known_as, content, f"failed {attempts} times: {reason}")
            return
        kind = type(error).__name__
        _log.warning("message %s failed, and is put back alone: %s", known_as, kind, exc_info=error)
        delay = timedelta(seconds=min(_LONGEST_DELAY, 2**attempts))
        sent_as, again = counts.sent_with(known_as, content)
        await self.postbox.put(self.queue, sent_as, again, not_before=self.clock.now() + delay)


def _as_error(result: BaseException) -> Exception:
    """Give what was raised as an error: a message whose work was cancelled is not done either."""
    return (
        result if isinstance(result, Exception) else TransientError(f"interrupted: {type(result).__name__}")
    )
