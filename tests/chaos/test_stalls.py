"""When the process of a run stood still is known: what was sent before may arrive after."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

from tests.chaos.evidence.stalls import Stalls
from tests.chaos.injection.outages import Interval
from tests.chaos.sample_evidence import after


async def test_only_what_takes_long_is_a_stall() -> None:
    """From the last look before it to the first one after."""
    looks = iter([0.0, 0.05, 1.05, 1.1])

    def now() -> datetime:
        try:
            return after(next(looks))
        except StopIteration:
            raise asyncio.CancelledError from None

    stalls = Stalls(now)
    with suppress(asyncio.CancelledError):
        await stalls.watch()
    assert stalls.found == [Interval(after(0.05), after(1.05))]
