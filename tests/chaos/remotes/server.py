"""The remote services of a run, on one HTTP server: payments, and the webhook for alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from random import Random

from aiohttp import web

from functions.agents.endpoints import url_setting
from tests.chaos.evidence.alerts import PostedAlert, posted
from tests.chaos.injection.lanes import FaultCounts
from tests.chaos.plan.schedule import Plan
from tests.chaos.remotes.call_faults import CallFaults
from tests.chaos.remotes.ledger import Ledger
from tests.chaos.remotes.services import SERVICES, FaultyServices

_LOOPBACK = "127.0.0.1"
#: Seconds that requests in flight get at the end of the run.
_LAST_CALLS = 0.1


class AlertReceiver:
    """Keeps every alert that is posted to it."""

    def __init__(self) -> None:
        self._alerts: list[PostedAlert] = []

    @property
    def alerts(self) -> Sequence[PostedAlert]:
        """All alerts in order of arrival; one that is posted twice is here twice."""
        return self._alerts

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to serve."""
        return [web.post("/alerts", self._post)]

    async def _post(self, request: web.Request) -> web.Response:
        self._alerts.append(posted(await request.json()))
        return web.Response(status=HTTPStatus.NO_CONTENT)


class Remotes:
    """The remote services of one run, and what they received."""

    def __init__(self, plan: Plan, fault_counts: FaultCounts) -> None:
        self.call_faults = CallFaults(plan.scenarios, fault_counts, plan.refused)
        self.ledger = Ledger(plan.sent_once)
        self.alerts = AlertReceiver()
        random = Random(plan.seed)  # noqa: S311 - not for security
        self._services = FaultyServices(self.ledger, self.call_faults, random)
        self._port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve on a free port until the block ends."""
        application = web.Application()
        application.add_routes([*self._services.routes(), *self.alerts.routes()])
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_LAST_CALLS)
        await runner.setup()
        try:
            await web.TCPSite(runner, _LOOPBACK, 0).start()
            self._port = runner.addresses[0][1]
            yield
        finally:
            await runner.cleanup()

    @property
    def port(self) -> int:
        """The port on which they are served."""
        return self._port

    def settings(self, port: int) -> Mapping[str, str]:
        """Return the application settings with the services' addresses behind a port."""
        address = f"http://{_LOOPBACK}:{port}"
        return {
            **{url_setting(agent): f"{address}/{service}" for agent, service in SERVICES.items()},
            "ALERT_WEBHOOK_URL": f"{address}/alerts",
            "SAMPLE_SERVICES": "0",
        }
