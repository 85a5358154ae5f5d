"""Orders at once for a payment service that takes 4 s: all are processed, nearly all in their first epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.crowds.orders import Crowd, Ends, Show
from tests.e2e.crowds.payments import SlowPayments

_LOOK_EVERY = 0.5
_PATIENCE = 900.0
#: As many calls as `maxConcurrentCalls` of host.json.
_AT_ONCE = 64
_MOST_LATER = 0.01


@dataclass(frozen=True, slots=True)
class Served:
    """What became of the crowd; `opened` tells whether the circuit was ever seen open."""

    orders: int
    ends: Ends
    most: int
    opened: bool
    alerts: Mapping[str, int]
    seconds: float

    def faults(self) -> list[str]:
        """Tell which promises were broken."""
        promises = {
            "all orders are processed": self.ends.states == {"Processed": self.orders},
            "at least 99 % in epoch 1": self.ends.epochs.get(1, 0) >= (1 - _MOST_LATER) * self.orders,
            "the circuit never opens": not self.opened,
            "one alert at most": sum(self.alerts.values()) <= 1,
            f"{_AT_ONCE} calls at once": self.most <= _AT_ONCE,
        }
        return [promise for promise, is_kept in promises.items() if not is_kept]


async def thousand_at_once(data: Path, show: Show, *, orders: int = 1_100, seconds: float = 4) -> Served:
    """Run the crowd with the application's own settings."""
    time = asyncio.get_running_loop().time
    payments, opened = SlowPayments(seconds), asyncio.Event()
    async with Crowd.at(data, payments, {}) as crowd:
        watching = asyncio.create_task(_watch(crowd, opened))
        began = time()
        await crowd.submit(orders)
        ends = await crowd.until(lambda ends: ends.finished == orders, show, _PATIENCE)
        took = time() - began
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    return Served(orders, ends, payments.calls.most, opened.is_set(), payments.alerts_of(), took)


async def _watch(crowd: Crowd, opened: asyncio.Event) -> None:
    """Look at the circuit more often than it could open and close: it stays open for 15 s."""
    while True:
        circuit = await crowd.circuit()
        if circuit is not None and (circuit["state"] != "closed" or circuit["ramp"] is not None):
            opened.set()
        await asyncio.sleep(_LOOK_EVERY)
