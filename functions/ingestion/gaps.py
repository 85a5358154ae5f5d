"""Finds what the hub has dropped unread: reading from before its retention goes on without a word."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from functions.pattern.errors import TransientError
from functions.pattern.hub_positions import Gap, HubPositions

_log = logging.getLogger(__name__)

#: Tells operators of a gap.
type AlertGap = Callable[[Gap], Awaitable[None]]


class Gaps:
    """Compares each batch with the one before; where that was taken elsewhere, with the checkpoint.

    The checkpoint still holds the number of the batch before while a batch is at work.
    """

    def __init__(self, positions: HubPositions, alert: AlertGap) -> None:
        self._positions = positions
        self._alert = alert
        self._last: dict[str, int] = {}

    async def check(self, partition: str, first: int, last: int) -> None:
        """Alert if events are missing before a batch of these numbers; each gap is told once here."""
        taken = self._last.get(partition)
        if taken is None or first > taken + 1:
            told = (taken, await self._checkpoint(partition))
            taken = max((each for each in told if each is not None), default=None)
        self._last[partition] = last
        if taken is not None and first > taken + 1:
            await self._alert(Gap(partition, taken + 1, first - 1))

    async def _checkpoint(self, partition: str) -> int | None:
        try:
            return await self._positions.checkpoint(partition)
        except TransientError as fault:
            _log.warning("partition %s: its checkpoint can't be read: %s", partition, fault)
            return None
