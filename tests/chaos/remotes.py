"""What the application calls outside the platform: the payment service and the operator's webhook."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random

from aiohttp import web

from tests.chaos.alerts import AlertReceiver
from tests.chaos.payments.ledger import Ledger
from tests.chaos.payments.service import PaymentService
from tests.chaos.payments.troubles import Troubles
from tests.chaos.plan import Plan
from tests.chaos.tally import Tally

_LOOPBACK = "127.0.0.1"
#: Seconds that calls under way get when everything is over.
_LAST_CALLS = 0.1


class Remotes:
    """The remote services of one run, and what they saw."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.troubles = Troubles(plan.fates, tally)
        self.ledger = Ledger()
        self.alerts = AlertReceiver()
        chance = Random(plan.seed)  # noqa: S311 - chance, no secret
        self._payments = PaymentService(self.ledger, self.troubles, chance)
        self._address = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve on a free port until the block ends."""
        application = web.Application()
        application.add_routes([*self._payments.routes(), *self.alerts.routes()])
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_LAST_CALLS)
        await runner.setup()
        try:
            await web.TCPSite(runner, _LOOPBACK, 0).start()
            self._address = f"http://{_LOOPBACK}:{runner.addresses[0][1]}"
            yield
        finally:
            await runner.cleanup()

    @property
    def settings(self) -> Mapping[str, str]:
        """The application settings that say where the services are; known once they are served."""
        return {
            "PAYMENT_URL": f"{self._address}/payments",
            "ALERT_WEBHOOK_URL": f"{self._address}/alerts",
            "SAMPLE_SERVICES": "0",
        }
