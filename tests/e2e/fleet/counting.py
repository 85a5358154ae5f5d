"""The tests' services, of which one counts its calls in flight and takes its time for each."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tests.e2e.crowds.calls import CallSpans
from tests.e2e.fleet.services import FleetServices


class CountingServices(FleetServices):
    """Counts the calls of the steps named `counted`, also of callers that are gone; each takes `seconds`."""

    def __init__(self, counted: str, seconds: float) -> None:
        super().__init__()
        self.spans = CallSpans()
        self._counted = counted
        self._seconds = seconds

    async def carry_out(self, request: web.Request, effect: str, prefix: str = "") -> web.Response:
        """Handle a call, and take the time for it, whoever waits for the answer."""
        if effect.split("/")[1] == self._counted and self._counted not in self.down:
            await asyncio.shield(asyncio.create_task(self._take_time()))
        return await super().carry_out(request, effect, prefix)

    async def _take_time(self) -> None:
        with self.spans.one():
            await asyncio.sleep(self._seconds)
