"""The tests' services, of which one counts its calls in flight and takes its time for each."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict

from aiohttp import web

from tests.e2e.fleet.services import FleetServices


class CountingServices(FleetServices):
    """Counts the calls of the steps named `counted`, also of callers that are gone; each takes `seconds`."""

    def __init__(self, counted: str, seconds: float) -> None:
        super().__init__()
        self.most = 0
        self._counted = counted
        self._seconds = seconds
        self._in_flight = 0
        self._busy = defaultdict[int, float](float)

    async def carry_out(self, request: web.Request, effect: str, prefix: str = "") -> web.Response:
        """Handle a call, and take the time for it, whoever waits for the answer."""
        if effect.split("/")[1] == self._counted:
            await asyncio.shield(asyncio.create_task(self._take_time()))
        return await super().carry_out(request, effect, prefix)

    def called_for(self, step: str) -> int:
        """Count the calls for a step."""
        return sum(call.step == step for call in self.calls)

    def on_average(self, since: float, until: float) -> list[float]:
        """Return how many calls were in flight on average of each whole second (of the loop's time)."""
        return [round(self._busy[second], 1) for second in range(math.ceil(since), math.floor(until))]

    async def _take_time(self) -> None:
        time = asyncio.get_running_loop().time
        began = time()
        self._in_flight += 1
        self.most = max(self.most, self._in_flight)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._in_flight -= 1
            for second in range(math.floor(began), math.floor(time()) + 1):
                self._busy[second] += min(second + 1, time()) - max(second, began)
