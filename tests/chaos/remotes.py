"""The remote services of a run, with effects as in the simulation, and the webhook for alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from functions.agents.agent_catalog import setting_of
from functions.core.record import Direction, MessageKind
from tests.fakes.web_server import served
from tests.simulation.services import Effect

_LOOPBACK = "127.0.0.1"
#: An effect key is `{task}.{run id}/{step}/{direction}`.
_SLASHES = 2
_AGENTS = ("payment", "account", "package", "transport", "drone", "delivery")
#: The content of every resource: each Agent reads its own fields.
_CONTENT = {
    "suspended": False,
    "tracking_number": "PK1",
    "carrier": "Northway Couriers",
    "price": "9.50",
    "currency": "EUR",
    "drone": "drone-01",
    "expected_at": "2026-11-21T13:00:00Z",
}


class Remotes:
    """The services with the effects of all calls, and the alerts that were posted.

    `refused` is the step that its service refuses, by the id of the order. Two calls under one effect key
    with different bodies, and effects of unknown keys, are `faults`.
    """

    def __init__(self, refused: Mapping[str, str]) -> None:
        self._refused = refused
        self.effects: dict[str, Effect] = {}
        self.posted: set[tuple[str, str | None]] = set()
        self.faults: list[str] = []
        self.calls = 0
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve on a free port until the block ends."""
        application = web.Application()
        application.add_routes(
            [
                web.post("/alerts", self._post_alert),
                web.get("/{agent}/{resource}", self._read),
                web.put("/{agent}/{resource}", self._change),
                web.delete("/{agent}/{resource}", self._change),
            ]
        )
        async with served(application) as url:
            self.port = int(url.rpartition(":")[2])
            yield

    def settings(self, port: int) -> dict[str, str]:
        """Return the application settings that lead to the services through a proxy's port."""
        address = f"http://{_LOOPBACK}:{port}"
        return {
            **{setting_of(agent, "URL"): f"{address}/{agent}" for agent in _AGENTS},
            "ALERT_WEBHOOK_URL": f"{address}/alerts",
            "SAMPLE_SERVICES": "0",
        }

    async def _post_alert(self, request: web.Request) -> web.Response:
        alert = await request.json()
        self.posted.add((alert.get("task", ""), MessageKind.ALERT))
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _read(self, _request: web.Request) -> web.Response:
        return web.json_response(_CONTENT)

    async def _change(self, request: web.Request) -> web.Response:
        key, body = request.headers.get("Idempotency-Key", ""), await request.text()
        self.calls += 1
        if key.count("/") != _SLASHES:
            self.faults.append(f"effect key '{key}' of {request.method} {request.path}")
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        return self.take_effect(key, body)

    def take_effect(self, key: str, body: str) -> web.Response:
        """Do or undo the call of an effect key, once. A call after its undo is refused."""
        resource, step, direction = key.split("/")
        do = self.effects.setdefault(f"{resource}/{step}/{Direction.DO}", Effect(""))
        if direction == Direction.UNDO:
            do.undone = True
            return web.Response(status=HTTPStatus.NO_CONTENT)
        do.body = do.body or body
        if do.body != body:
            self.faults.append(f"{key}: two bodies")
        if self._refused.get(resource.partition(".")[0]) == step:
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        if do.undone:
            return web.Response(status=HTTPStatus.GONE)
        if do.done:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        do.done = 1
        return web.json_response(_CONTENT, status=HTTPStatus.CREATED)
