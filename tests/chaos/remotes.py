"""The remote services of a run, with the ledger of the simulation, and the webhook for alerts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from functions.agents.endpoints import url_setting
from tests.simulation.checks.alerts import PostedAlert, posted
from tests.simulation.remotes.ledger import CallEffect, RemoteCall, RemoteLedger

_LOOPBACK = "127.0.0.1"
#: Seconds that requests in flight have at the end of the run.
_LAST_CALLS = 0.1
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
    """The services, the calls that they received, and the alerts that were posted.

    `refused` is the step that its service refuses, by the id of the order.
    """

    def __init__(self, refused: Mapping[str, str]) -> None:
        self._refused = refused
        self.ledger = RemoteLedger()
        self.alerts: list[PostedAlert] = []
        #: Agents that have read a resource.
        self.readers: set[str] = set()
        #: The port on which they are served.
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
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_LAST_CALLS)
        await runner.setup()
        try:
            await web.TCPSite(runner, _LOOPBACK, 0).start()
            self.port = runner.addresses[0][1]
            yield
        finally:
            await runner.cleanup()

    def settings(self, port: int) -> Mapping[str, str]:
        """Return the application settings that lead to the services through a proxy's port."""
        address = f"http://{_LOOPBACK}:{port}"
        return {
            **{url_setting(agent): f"{address}/{agent}" for agent in _AGENTS},
            "ALERT_WEBHOOK_URL": f"{address}/alerts",
            "SAMPLE_SERVICES": "0",
        }

    async def _post_alert(self, request: web.Request) -> web.Response:
        self.alerts.append(posted(await request.json()))
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _read(self, request: web.Request) -> web.Response:
        self.readers.add(request.match_info["agent"])
        return web.json_response(_CONTENT)

    async def _change(self, request: web.Request) -> web.Response:
        now, key = asyncio.get_running_loop().time(), request.headers.get("Idempotency-Key", "")
        call = RemoteCall(request.match_info["agent"], key, now, body=await request.read())
        self.ledger.calls.append(call)
        if not call.is_undo and self._refused.get(call.task) == call.step_name:
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        match self.ledger.carry_out(call, now):
            case CallEffect.PERFORMED:
                return web.json_response(_CONTENT, status=HTTPStatus.CREATED)
            case CallEffect.TOMBSTONED:
                return web.Response(status=HTTPStatus.GONE)
            case _:
                return web.Response(status=HTTPStatus.NO_CONTENT)
