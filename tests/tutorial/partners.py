"""Stand-ins for services of others: a partner with a rate limit, one with long jobs, and another team."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from aiohttp import web

from tests.fakes.web_server import served

#: The partner's limit of calls a second.
_ALLOWED = 2
#: The seconds between the looks at a job, and the looks until it is done.
_LOOK_AFTER = 0.3
_LOOKS = 2


class Partners:
    """Serve `/partner`, `/reports` and `/logistics`."""

    def __init__(self) -> None:
        self.url = ""
        #: Calls that came too soon, and those that were answered.
        self.too_many = 0
        self.looked_up: list[str] = []
        #: The jobs that never end; the looks at each job; the stopped jobs.
        self.endless: set[str] = set()
        self.looks: Counter[str] = Counter()
        self.stopped: set[str] = set()
        #: Shipments whose answer is lost; shipments by their key; cancellations by our reference.
        self.lost: set[str] = set()
        self.shipments: dict[str, dict[str, Any]] = {}
        self.cancelled: dict[str, str | None] = {}
        self._answered: deque[float] = deque([0.0] * _ALLOWED, maxlen=_ALLOWED)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Serve on a free port."""
        app = web.Application()
        app.router.add_put("/partner/{id}", self._look_up)
        app.router.add_put("/reports/{id}", self._start)
        app.router.add_get("/reports/{id}", self._look)
        app.router.add_delete("/reports/{id}", self._stop)
        app.router.add_post("/logistics/shipments", self._ship)
        app.router.add_post("/logistics/cancellations", self._cancel)
        async with served(app) as self.url:
            yield self

    async def _look_up(self, request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        if now - self._answered[0] < 1:
            self.too_many += 1
            return web.Response(status=429, headers={"Retry-After": "1"})
        self._answered.append(now)
        self.looked_up.append((await request.json())["address"])
        return web.json_response({"reference": f"of {self.looked_up[-1]}"})

    async def _start(self, request: web.Request) -> web.Response:
        return self._state(_task(request.match_info["id"]))

    async def _look(self, request: web.Request) -> web.Response:
        job = _task(request.match_info["id"])
        self.looks[job] += 1
        return self._state(job)

    async def _stop(self, request: web.Request) -> web.Response:
        self.stopped.add(_task(request.match_info["id"]))
        return web.Response()

    def _state(self, job: str) -> web.Response:
        look_at = datetime.now(UTC) + timedelta(seconds=_LOOK_AFTER)
        is_done = self.looks[job] >= _LOOKS and job not in self.endless
        url = "https://reports.example.com/1" if is_done else None
        return web.json_response({"done": is_done, "look_at": look_at.isoformat(), "url": url})

    async def _ship(self, request: web.Request) -> web.Response:
        key, ordered = request.headers["Idempotency-Key"], await request.json()
        reference = _task(ordered["reference"])
        self.shipments.setdefault(key, {**ordered, "number": f"L-{len(self.shipments) + 1}"})
        if reference in self.lost:
            await asyncio.Event().wait()
        return web.json_response({"number": self.shipments[key]["number"]})

    async def _cancel(self, request: web.Request) -> web.Response:
        cancelled = await request.json()
        self.cancelled[_task(cancelled["reference"])] = cancelled["number"]
        return web.Response()


def _task(resource: str) -> str:
    """Return the task of a resource, without the run id."""
    return resource.partition(".")[0]
