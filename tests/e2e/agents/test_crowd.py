"""More orders than an Agent has time for at once: they wait for it, and none of them has failed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.caller import ORDER, rows
from tests.e2e.recovery.bench import APP, bench_with, events
from tests.e2e.recovery.remote import RemoteService
from tests.e2e.recovery.workflows import STEPS
from tests.fakes.web_server import served

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

_ORDERS = 40
_AT_ONCE = 4
_CALL_SECONDS = 2.0
#: Seconds for the payment, far more than it takes, and to be taken for it: less than the queue is long.
_OWN, _PICK_UP = 12, 5
_LIMITS = {
    "STEP_SECONDS": f"orders.payment={_OWN}",
    "AGENTS_PICK_UP_SECONDS": str(_PICK_UP),
    "SKEW_SECONDS": "1",
}
_SETTINGS = {
    **_LIMITS,
    "azurefunctionsjobhost__extensions__serviceBus__maxConcurrentCalls": str(_AT_ONCE),
    "BREAKER_FAILURES": "1",
    "STATE_SHARDS": "2",
    "SUPERVISOR_SCHEDULE": "* * * * * *",
}


@dataclass(slots=True)
class _Payments:
    """A healthy service that takes its time."""

    calls: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve until the block ends, at the address that it gives."""
        app = web.Application()
        app.router.add_put("/payments/{task}", self._pay)
        async with served(app) as url:
            yield f"{url}/payments"

    async def _pay(self, request: web.Request) -> web.Response:
        self.calls[request.match_info["task"].partition(".")[0]] += 1
        await asyncio.sleep(_CALL_SECONDS)
        return web.json_response({"reference": request.match_info["task"]})


async def test_requests_that_wait_longer_than_their_own_time_are_processed_in_their_first_epoch(
    tmp_path: Path,
) -> None:
    """Each is paid once, also those that were not taken at first; the service's circuit stays closed."""
    assert _ORDERS * _CALL_SECONDS / _AT_ONCE > _OWN + _PICK_UP
    payments, orders = _Payments(), [f"crowd-{number}" for number in range(_ORDERS)]
    async with RemoteService().serving() as remote, payments.serving() as address:
        urls = {f"{step.upper()}_URL": f"{remote.url}/{step}" for step in STEPS}
        settings = _SETTINGS | urls | {"PAYMENT_URL": address}
        async with bench_with(remote, tmp_path, settings, app=APP) as bench:
            await asyncio.gather(*(bench.submit(task, "orders", ORDER) for task in orders))
            ended = [await bench.until_state(task, "Processed") for task in orders]
            steps = rows(bench.platform, "Tasks", "Name eq 'payment'")
            opened = rows(bench.platform, "Circuits", "State ne 'closed'")
    assert {(task["epoch"], task["failure_count"]) for task in ended} == {(1, 0)}
    assert {tuple(events(task)) for task in ended} == {("submitted",)}
    assert payments.calls == Counter(orders)
    assert sum("NotTaken" in row for row in steps) > _AT_ONCE
    assert opened == []
    assert remote.alerts == []
