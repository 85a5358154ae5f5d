"""Deliveries that end at once, as the sample services were set up, and those services."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

_STEPS = ("account", "package", "transport", "drone", "delivery")
_AT = "2026-11-21T10:00:00+00:00"


@dataclass(slots=True)
class CannedDeliveries:
    """The deliveries of one API. The services in `left_behind` keep their resource after its undo."""

    has_services: bool = True
    left_behind: frozenset[str] = frozenset()
    #: What was received: the size of each batch, and each delivery by its id.
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
