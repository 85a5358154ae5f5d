"""A scripted payment service in place of the sample one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.web_server import served


@dataclass(slots=True)
class PaymentService:
    """Answers with the given statuses in order, then with 201; records the requests."""

    statuses: list[int] = field(default_factory=list)
    hangs: bool = False
    keys: list[str] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        """Answer with the next status."""
        self.keys.append(request.headers["Idempotency-Key"])
        if self.hangs:
            await asyncio.Event().wait()
        return web.Response(status=self.statuses.pop(0) if self.statuses else 201)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[PaymentService]:
        """Serve on a free port."""
        app = web.Application()
        app.router.add_put("/payments/{id}", self.answer)
        app.router.add_delete("/payments/{id}", self.answer)
        async with served(app) as address:
            self.url = f"{address}/payments"
            yield self
