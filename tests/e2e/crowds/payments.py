"""A payment service that takes its time, counts, and can be down; and the webhook of operators' alerts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from aiohttp import web

from tests.e2e.crowds.calls import CallSpans
from tests.fakes.web_server import served


class SlowPayments:
    """Each payment takes `seconds`, whoever waits for the answer; while it `is_down`, it answers 503."""

    def __init__(self, seconds: float) -> None:
        self.settings: dict[str, str] = {}
        self.is_down = False
        self.calls = CallSpans()
        #: How often each order was paid.
        self.paid = Counter[str]()
        self.refused = 0
        self.alerts: list[dict[str, Any]] = []
        #: When the first call was answered after it was down (the loop's time).
        self.back_at = 0.0
        self._seconds = seconds

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Serve on a free port, which is in the application's `settings` then."""
        app = web.Application()
        app.router.add_put("/payments/{task}", self._pay)
        app.router.add_post("/alerts", self._alert)
        async with served(app) as url:
            self.settings = {"PAYMENT_URL": f"{url}/payments", "ALERT_WEBHOOK_URL": f"{url}/alerts"}
            yield self

    def alerts_of(self) -> Counter[str]:
        """Count the alerts by kind."""
        return Counter(each["event"] for each in self.alerts)

    async def _pay(self, request: web.Request) -> web.Response:
        if self.is_down:
            self.refused += 1
            return web.Response(status=503)
        await asyncio.shield(asyncio.create_task(self._take_time()))
        self.paid[request.match_info["task"].partition(".")[0]] += 1
        return web.json_response({"reference": request.match_info["task"]})

    async def _take_time(self) -> None:
        with self.calls.one():
            await asyncio.sleep(self._seconds)
        self.back_at = self.back_at or asyncio.get_running_loop().time()

    async def _alert(self, request: web.Request) -> web.Response:
        self.alerts.append(await request.json())
        return web.Response()
