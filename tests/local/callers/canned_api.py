"""An order API in which each order has a fixed sequence of states, one for each status request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.local.callers.canned_deliveries import CannedDeliveries

SUBMITTED = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
#: From the queue to the end: no status yet, then each state.
HAPPY_LIFE = (None, "Accepted", "Pending", "Processing", "Processed")


@asynccontextmanager
async def canned_api(
    life: Sequence[str | None] = HAPPY_LIFE,
    *,
    submit_status: int = 202,
    deliveries: CannedDeliveries | None = None,
) -> AsyncIterator[str]:
    """Serve the API for the block, with `deliveries` if there are any, and yield its address."""
    looks: dict[str, int] = {}

    async def submit(request: web.Request) -> web.Response:
        await request.json()
        looks[request.match_info["id"]] = 0
        return web.json_response({"title": "canned"}, status=submit_status)

    async def look(request: web.Request) -> web.Response:
        order_id = request.match_info["id"]
        state = life[min(looks[order_id], len(life) - 1)]
        looks[order_id] += 1
        if state is None:
            return web.json_response({"title": "unknown"}, status=404)
        return web.json_response(_order(order_id, state))

    app = web.Application()
    app.add_routes(
        [
            web.post("/api/orders", submit),
            web.put("/api/orders/{id}", submit),
            web.get("/api/orders/{id}", look),
        ]
    )
    if deliveries is not None:
        app.add_routes(deliveries.routes())
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def _order(order_id: str, state: str) -> dict[str, object]:
    finished = (SUBMITTED + timedelta(seconds=0.25)).isoformat() if state in {"Processed", "Error"} else None
    step = {
        "name": "payment",
        "state": "Completed" if finished else "Running",
        "started_at": SUBMITTED.isoformat(),
    }
    return {
        "id": order_id,
        "state": state,
        "workflow": "orders",
        "submitted_at": SUBMITTED.isoformat(),
        "finished_at": finished,
        "steps": [{**step, "finished_at": finished}],
        "last_error": "the card was refused" if state == "Error" else None,
    }
