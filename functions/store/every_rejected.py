"""All rejected messages together: those of the state store, and those in the Agents' own table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from functions.pattern.identity import TaskId
from functions.pattern.rejected import (
    NOTHING_KNOWN,
    About,
    Content,
    Labels,
    Place,
    RejectedMessage,
    RejectedMessages,
    RejectedPage,
)


class EveryRejected:
    """What operators see. What is rejected here is the state store's. Its methods raise `TransientError`."""

    def __init__(self, own: RejectedMessages, agents: RejectedMessages) -> None:
        self._own = own
        self._agents = agents

    async def reject(
        self,
        queue: str,
        message_id: str,
        body: bytes,
        reason: str,
        labels: Labels | None = None,
        *,
        about: About = NOTHING_KNOWN,
    ) -> None:
        """Record a message in the state store."""
        await self._own.reject(queue, message_id, body, reason, labels, about=about)

    async def listed(
        self,
        *,
        queues: Sequence[str],
        most: int,
        after: Place | None = None,
        until: datetime | None = None,
        discarded: bool = False,
    ) -> RejectedPage:
        """Read a page of both."""
        first, second = [
            await each.listed(queues=queues, most=most, after=after, until=until, discarded=discarded)
            for each in (self._own, self._agents)
        ]
        return first.joined(second, most)

    async def of_task(self, task: TaskId, *, most: int) -> RejectedPage:
        """Read the latest of both that name a task."""
        first, second = [await each.of_task(task, most=most) for each in (self._own, self._agents)]
        return first.joined(second, most)

    async def body(self, message: str) -> tuple[RejectedMessage, bytes] | None:
        """Read a message where it is."""
        return await self._own.body(message) or await self._agents.body(message)

    async def resending(
        self, message: str, who: str, why: str
    ) -> tuple[RejectedMessage, Content | None] | None:
        """Record that a message is sent again, where it is."""
        found = await self._own.resending(message, who, why)
        return found or await self._agents.resending(message, who, why)

    async def discard(self, message: str, who: str, why: str) -> RejectedMessage | None:
        """Delete a message where it is, but for what is known of it."""
        return await self._own.discard(message, who, why) or await self._agents.discard(message, who, why)

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete old ones of both, up to `most`; give how many."""
        deleted = await self._own.delete_before(before, most)
        if deleted < most:
            deleted += await self._agents.delete_before(before, most - deleted)
        return deleted
