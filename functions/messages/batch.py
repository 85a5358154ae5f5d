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
from functions.pattern.errors import PatternError, as_error
from functions.pattern.ports import Clock
from functions.pattern.rejected import Content, Postbox
from functions.pattern.sent_again import Counts
from functions.pattern.waiting import within

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
        """Do the work on each message; put back failed ones. Raises if none succeeds, or a return fails."""
        taken = (process(self.queue, each, partial(work, each)) for each in messages)
        results = await asyncio.gather(*taken, return_exceptions=True)
        failed = [(each, as_error(end)) for each, end in zip(messages, results, strict=True) if end]
        if len(failed) == len(messages):  # an outage
            left = [error for _, error in failed]
        else:
            returns = (within(_RETURN_SECONDS, self._put_back(message, error)) for message, error in failed)
            left = [as_error(end) for end in await asyncio.gather(*returns, return_exceptions=True) if end]
        if left:
            raise ExceptionGroup("messages that could not be taken are delivered again", left)

    async def _put_back(self, message: QueueMessage, error: Exception) -> None:
        """Send a message again, later each time, under a new id: its own would be taken for a duplicate."""
        content, known_as = content_of(message), message.message_id or ""
        counts = Counts.of(content).once_failed()
        attempts, kind, most_attempts = counts.attempts, type(error).__name__, 10  # as Service Bus has it
        if attempts >= most_attempts:
            # What is no error of ours, such as a model's, may quote the payload.
            said = f": {error}" if isinstance(error, PatternError) else ""
            await self.give_up(self.queue, known_as, content, f"failed {attempts} times: {kind}{said}")
            return
        _log.warning("message %s failed, and is put back alone: %s", known_as, kind, exc_info=error)
        sent_as, again = counts.sent_with(known_as, content)
        delay = timedelta(seconds=min(60, 2**attempts))
        await self.postbox.put(self.queue, sent_as, again, not_before=self.clock.now() + delay)
