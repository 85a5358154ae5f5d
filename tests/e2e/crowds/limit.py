"""A service that bears ten calls at a time, called by Agents behind a queue in three hosts; one is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from local.platform import ANY_PORTS, PartName, Platform, PlatformOptions
from local.platform.blueprint import Stages, whole_platform
from local.platform.options import Addresses
from tests.e2e.crowds.orders import Crowd, Ends, Show
from tests.e2e.crowds.payments import SlowPayments

_LIMIT, _USED = 10, 8
#: Seconds: a call's; by when each host has its share; for how long that is seen.
_CALL, _STARTED, _USED_FOR = 1.5, 5, 12
#: How long a killed host's share lasts, and until the others notice.
_LEASE = 10 + 0.5 + 6 + 1.5
#: Of ten places, a host of three has four at most.
_SHARE = 4
_PATIENCE = 600.0
_SETTINGS = {
    "AGENT_PAYMENT_AT_ONCE": f"{_LIMIT}",
    "SKEW_SECONDS": "0.5",
    "AGENTS_PICK_UP_SECONDS": "300",
    "SUPERVISOR_THRESHOLD": "100",
}


@dataclass(frozen=True, slots=True)
class Limited:
    """The calls in flight on average of each second: before a kill, while the lease lasts, and after it."""

    orders: int
    ends: Ends
    most: int
    used: list[float]
    lapsing: list[float]
    again: list[float]

    def faults(self) -> list[str]:
        """Tell which promises were broken."""
        promises = {
            "all orders are processed": self.ends.states == {"Processed": self.orders},
            "never more than ten calls in flight": self.most == _LIMIT,
            "eight on average of each second": min(self.used) >= _USED,
            "less the killed host's share while it lasts": min(self.lapsing) >= _USED - _SHARE,
            "eight again after that": min(self.again) >= _USED,
        }
        return [promise for promise, is_kept in promises.items() if not is_kept]


async def limited(data: Path, show: Show, *, orders: int) -> Limited:
    """Run more orders than can be done meanwhile, and kill a host."""
    time = asyncio.get_running_loop().time
    payments = SlowPayments(_CALL)
    async with (
        Crowd.at(data / "first", payments, _SETTINGS) as crowd,
        _another_host(crowd, data / "second"),
        _another_host(crowd, data / "third") as third,
    ):
        await crowd.submit(orders)
        while not payments.calls.ended:
            await asyncio.sleep(0.1)
        began = payments.calls.ended[0].began + _STARTED
        await asyncio.sleep(began + _USED_FOR - time())
        killed = time()
        await third.kill(PartName.HOST)
        await asyncio.sleep(_LEASE + _USED_FOR)
        until = time() - _CALL
        ends = await crowd.until(lambda ends: ends.finished == orders, show, _PATIENCE)
    average = payments.calls.on_average
    return Limited(
        orders,
        ends,
        payments.calls.most,
        average(began, killed),
        average(killed, killed + _LEASE),
        average(killed + _LEASE, until),
    )


@asynccontextmanager
async def _another_host(crowd: Crowd, data: Path) -> AsyncIterator[Platform]:
    addresses = crowd.platform.addresses
    storage, bus = addresses.storage_connection, addresses.service_bus_connection
    connections = {"AzureWebJobsStorage": storage, "StateStore": storage, "ServiceBusConnection": bus}
    settings = {**crowd.payments.settings, **_SETTINGS, **connections}
    options = PlatformOptions(ports=ANY_PORTS, data=data, settings=settings)
    async with Platform(options, blueprint=host_only) as platform:
        yield platform


def host_only(options: PlatformOptions, addresses: Addresses) -> Stages:
    """Give the host alone, beside the other parts of another platform."""
    parts = (part for stage in whole_platform(options, addresses) for part in stage)
    return [[part for part in parts if part.name is PartName.HOST]]
