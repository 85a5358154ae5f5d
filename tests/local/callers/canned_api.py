"""An order API and its sample services, with fixed answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

_STEPS = ("account", "package", "transport", "drone", "delivery")
_AT = "2026-11-21T10:00:00+00:00"
SUBMITTED = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
#: From the queue to the end: no status yet, then each state.
HAPPY_LIFE = (None, "Accepted", "Pending", "Processing", "Processed")


@dataclass(slots=True)
class CannedDeliveries:
    """The deliveries of one API. The services in `left_behind` keep their resource after its undo."""

    has_services: bool = True
    left_behind: frozenset[str] = frozenset()
    #: The received requests: the size of each batch, and each delivery by its id.
    batches: list[int] = field(default_factory=list)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)
    faults: set[str] = field(default_factory=set)
    refused_drones: set[str] = field(default_factory=set)

    def routes(self) -> list[web.RouteDef]:
        """Return the API's routes, and those of the services if there are any."""
        api = [
            web.post("/api/deliveries", self._submit),
            web.post("/api/deliveries/batch", self._submit),
            web.get("/api/deliveries/{id}", self._look),
        ]
        services = [
            web.put("/api/services/accounts/{id}", self._suspend),
            web.put("/api/services/drones/faults/{id}", self._refuse),
            web.delete("/api/services/drones/faults/{id}", self._end),
            web.get("/api/services/{service}/{id}", self._resource),
        ]
        return api + services if self.has_services else api

    async def _submit(self, request: web.Request) -> web.Response:
        orders = (await request.json())["deliveries"]
        self.batches.append(len(orders))
        self.bodies |= {order["id"]: order for order in orders}
        results = [{"index": index, "status": 202, "id": each["id"]} for index, each in enumerate(orders)]
        return web.json_response({"results": results})

    async def _look(self, request: web.Request) -> web.Response:
        order_id = request.match_info["id"]
        steps = self._steps(order_id)
        state = "Processed" if steps["delivery"] == "Completed" else "Compensated"
        shown = [{"name": name, "state": of_step} for name, of_step in steps.items()]
        order = {"id": order_id, "state": state, "submitted_at": _AT, "finished_at": _AT, "steps": shown}
        return web.json_response(order)

    def _steps(self, order_id: str) -> dict[str, str]:
        delivery = self.bodies[order_id]
        steps = dict.fromkeys(_STEPS, "Completed")
        if delivery["dropoff"]["latitude"] > 47:
            steps["transport"] = "Skipped"
        if order_id in self.refused_drones:
            steps |= {"package": "Undone", "drone": "Undone", "delivery": "Not started"}
        if delivery["account"] in self.suspended:
            steps = dict.fromkeys(_STEPS, "Not started") | {"account": "Refused"}
        return steps

    async def _suspend(self, request: web.Request) -> web.Response:
        assert await request.json() == {"suspended": True}
        self.suspended.add(request.match_info["id"])
        return web.Response(status=201)

    async def _refuse(self, request: web.Request) -> web.Response:
        assert await request.json() == {"kind": "refuse"}
        self.refused_drones.add(request.match_info["id"])
        self.faults.add(request.match_info["id"])
        return web.Response(status=204)

    async def _end(self, request: web.Request) -> web.Response:
        self.faults.discard(request.match_info["id"])
        return web.Response(status=204)

    async def _resource(self, request: web.Request) -> web.Response:
        service, order_id = request.match_info["service"], request.match_info["id"]
        if order_id in self.faults:
            return web.Response(status=422)
        if order_id not in self.refused_drones:
            return web.Response(status=404)
        return web.json_response({"undone_at": None if service in self.left_behind else _AT})


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
