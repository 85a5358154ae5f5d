"""A payment service: one effect for each key, a tombstone for each undone effect; calls can be blocked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.web_server import served


@dataclass(slots=True)
class PaymentService:
    """The effects by their keys; calls wait while a client reads `/hold`."""

    effects: Counter[str] = field(default_factory=Counter)
    undone: set[str] = field(default_factory=set)
    free: asyncio.Event = field(default_factory=asyncio.Event)
    holders: int = 0

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[str]:
        """Serve until the block ends; yield the address."""
        service = cls()
        service.free.set()
        app = web.Application()
        app.router.add_put("/payments/{task}", service._pay)
        app.router.add_delete("/payments/{task}", service._pay_back)
        app.router.add_get("/effects", service._effects)
        app.router.add_get("/hold", service._hold)
        async with served(app) as url:
            yield url

    async def _pay(self, request: web.Request) -> web.Response:
        await self.free.wait()
        key = request.headers["Idempotency-Key"]
        if key in self.undone:
            return web.json_response({}, status=409)
        self.effects.setdefault(key, 1)
        return web.json_response({"reference": request.match_info["task"]})

    async def _pay_back(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        do = key.removesuffix("/undo") + "/do"
        self.undone.add(do)
        if do in self.effects:
            self.effects.setdefault(key, 1)
        return web.json_response({})

    async def _effects(self, _: web.Request) -> web.Response:
        return web.Response(text="".join(f"{key} {count}\n" for key, count in self.effects.items()))

    async def _hold(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.holders += 1  # whoever has gone is noticed with the next line only
        self.free.clear()
        try:
            while True:
                await response.write(b"held\n")
                await asyncio.sleep(0.1)
        finally:
            self.holders -= 1
            if not self.holders:
                self.free.set()
