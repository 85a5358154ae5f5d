"""A payment service that hangs, as the names of its tasks say."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.web_server import served


@dataclass(slots=True)
class Payments:
    """Counts each task's calls. The first for `hanging-…` gets no answer."""

    calls: Counter[str] = field(default_factory=Counter)
    address: str = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Payments]:
        """Serve until the block ends."""
        app = web.Application()
        app.router.add_put("/payments/{task}", self._pay)
        async with served(app) as url:
            self.address = f"{url}/payments"
            yield self

    async def _pay(self, request: web.Request) -> web.Response:
        task = request.match_info["task"]
        self.calls[task] += 1
        if task.startswith("hanging") and self.calls[task] == 1:
            await asyncio.Event().wait()
        return web.json_response({"task": task})
