"""Tells the log how long messages have waited: Service Bus measures how many there are, not since when."""

from __future__ import annotations

import json
import logging
from datetime import datetime

from functions.pattern.ports import Clock, Queues

_log = logging.getLogger(__name__)


class Backlog:
    """Looks at the queues from time to time."""

    def __init__(self, queues: Queues, clock: Clock) -> None:
        self._queues = queues
        self._clock = clock

    async def tell(self) -> None:
        """Log one line for each queue in which messages wait; an alert rule takes the age of the oldest."""
        for depth in await self._queues.depths():
            if depth.waiting is not None and depth.waiting.oldest_at is not None:
                facts = {"queue": depth.queue, "oldest_seconds": self._seconds_since(depth.waiting.oldest_at)}
                _log.info("messages wait %s", json.dumps(facts))

    def _seconds_since(self, at: datetime) -> int:
        """Give the time since, or nothing: the service's clock may be ahead of ours."""
        return max(0, round((self._clock.now() - at).total_seconds()))
