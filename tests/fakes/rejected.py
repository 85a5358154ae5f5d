"""Rejected messages in memory, as the table keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime

from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.rejected import (
    About,
    Content,
    Labels,
    RejectedList,
    RejectedMessage,
)

_MOST_READ = 5_000


class MemoryRejected:
    """Keeps messages; a body of more than `most` bytes is not kept whole."""

    def __init__(self, clock: Clock, *, most: int = 1_000_000) -> None:
        self._clock = clock
        self._most = most
        self._kept: dict[str, tuple[RejectedMessage, Content]] = {}
        self._discarded: list[RejectedMessage] = []

    async def reject(
        self,
        queue: str,
        message_id: str,
        body: bytes,
        reason: str,
        labels: Labels | None = None,
        *,
        about: About | None = None,
    ) -> None:
        """Keep a message, once."""
        name = hashlib.sha256(repr((queue, message_id, body)).encode()).hexdigest()
        kept = RejectedMessage(
            id=name,
            queue=queue,
            message_id=message_id,
            size=len(body),
            whole=len(body) <= self._most,
            reason=reason,
            rejected_at=self._clock.now(),
            **asdict(about or About()),
        )
        self._kept.setdefault(name, (kept, Content(body, labels or Labels())))

    async def listed(
        self, queues: Sequence[str], most: int, *, until: datetime | None = None, discarded: bool = False
    ) -> RejectedList:
        """List the latest, of the first 5,000."""
        kept = self._discarded if discarded else [kept for kept, _ in self._kept.values()]
        return _latest(
            [
                each
                for each in kept
                if (not queues or each.queue in queues) and (until is None or each.rejected_at <= until)
            ],
            most,
        )

    async def of_task(self, task: TaskId, most: int) -> RejectedList:
        """List the latest of one task."""
        return _latest([kept for kept, _ in self._kept.values() if kept.task == task], most)

    async def body(self, message: str) -> tuple[RejectedMessage, bytes] | None:
        """Give what is kept."""
        if message not in self._kept:
            return None
        kept, content = self._kept[message]
        return kept, content.body[: self._most]

    async def resending(
        self, message: str, who: str, why: str
    ) -> tuple[RejectedMessage, Content | None] | None:
        """Record who sends it again."""
        if message not in self._kept:
            return None
        kept, content = self._kept[message]
        if not kept.whole:
            return kept, None
        resent = replace(
            kept, resends=kept.resends + 1, resent_by=who, resent_why=why, resent_at=self._clock.now()
        )
        self._kept[message] = (resent, content)
        return resent, content

    async def discard(self, message: str, who: str, why: str) -> RejectedMessage | None:
        """Move it to the discarded ones."""
        if message not in self._kept:
            return None
        kept, _ = self._kept.pop(message)
        discarded = replace(kept, discarded_by=who, discarded_why=why, discarded_at=self._clock.now())
        self._discarded.append(discarded)
        return discarded

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete some that are older."""
        old = [name for name, (kept, _) in self._kept.items() if kept.rejected_at < before][:most]
        for name in old:
            del self._kept[name]
        return len(old)


def _latest(found: Sequence[RejectedMessage], most: int) -> RejectedList:
    ordered = sorted(found[:_MOST_READ], key=lambda each: each.rejected_at, reverse=True)
    return RejectedList(ordered[:most], more=len(found) > most)
