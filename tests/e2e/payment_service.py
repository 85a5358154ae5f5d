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
    """Answers an order's calls with its statuses in turn, then with 201; records the requests."""

    statuses: dict[str, list[int]] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)
    keys: list[str] = field(default_factory=list)
    url: str = ""

    def keys_of(self, order: str) -> list[str]:
        """Return the idempotency keys of an order's calls."""
        return [key for key in self.keys if key.startswith(f"{order}.")]

    async def answer(self, request: web.Request) -> web.Response:
        """Answer with the order's next status."""
        key = request.headers["Idempotency-Key"]
        self.keys.append(key)
        order = key.partition(".")[0]
        if order in self.hanging:
            await asyncio.Event().wait()
        left = self.statuses.get(order)
        return web.Response(status=left.pop(0) if left else 201)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[PaymentService]:
        """Serve on a free port."""
        app = web.Application()
        app.router.add_put("/payments/{id}", self.answer)
        app.router.add_delete("/payments/{id}", self.answer)
        async with served(app) as address:
            self.url = f"{address}/payments"
            yield self
