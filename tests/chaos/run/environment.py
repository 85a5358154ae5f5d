"""The environment of a run: the real platform, a proxy to each account's tables, and the remote services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from local.platform import ANY_PORTS, Addresses, Platform, PlatformOptions, azurite_alone
from local.platform.blueprint import Stages, whole_platform
from tests.chaos.injection.lanes import FaultCounts
from tests.chaos.injection.outages import ProxiedAccount
from tests.chaos.injection.proxy import Proxy
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan
from tests.chaos.remotes.server import Remotes

#: Seconds by which a proxy delays each piece of data.
_DELAY = 0.3
#: Shards that are spread over several accounts.
_SHARDS = "16"


#: Where the API puts orders, as the setting has it.
type SubmitTo = Literal["queue", "hub"]


class RunEnvironment:
    """The platform, proxies and remote services of one run, on free ports, with all state beside `data`.

    The first account is the platform's own Azurite; each further one has an Azurite of its own. With `split`,
    each role has a host of its own.
    """

    def __init__(
        self,
        plan: Plan,
        limits: Limits,
        data: Path,
        *,
        accounts: int = 1,
        submit_to: SubmitTo = "queue",
        split: bool = False,
    ) -> None:
        self.submit_to = submit_to
        self.fault_counts = FaultCounts()
        self.remotes = Remotes(plan, self.fault_counts)
        ports = ANY_PORTS.split() if split else ANY_PORTS
        options = PlatformOptions(ports=ports, data=data, settings=limits.settings)
        self.platform = Platform(options, self._blueprint)
        self._others = [
            Platform(
                PlatformOptions(ports=ANY_PORTS, data=data.with_name(f"account-{number}")), azurite_alone
            )
            for number in range(1, accounts)
        ]
        self.accounts: Sequence[ProxiedAccount] = [
            ProxiedAccount(platform, Proxy(delay=_DELAY)) for platform in (self.platform, *self._others)
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run everything until the block ends. Raises `PlatformError`."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.remotes.serving())
            for account in self.accounts:
                await stack.enter_async_context(account.proxy.serving())
            for platform in (*self._others, self.platform):
                await stack.enter_async_context(platform)
            yield

    @property
    def connections(self) -> list[str]:
        """How the accounts are reached without the proxies."""
        return [account.platform.addresses.storage_connection for account in self.accounts]

    async def unless_a_part_fails[Result](self, work: Awaitable[Result]) -> Result:
        """Return the result of `work`. Raises `PartFailedError` when a part ends first."""
        for account in self.accounts:
            work = account.platform.unless_a_part_fails(work)
        return await work

    def kill_all_now(self) -> None:
        """End every part with SIGKILL without waiting."""
        for account in self.accounts:
            account.platform.kill_all_now()

    def _blueprint(self, options: PlatformOptions, addresses: Addresses) -> Stages:
        """Return the whole platform, with the proxies between its host and the tables."""
        ports = [addresses.ports, *(other.addresses.ports for other in self._others)]
        seen_by_host = []
        for account, own in zip(self.accounts, ports, strict=True):
            account.proxy.forward_to(own.table)
            seen_by_host.append(Addresses(replace(own, table=account.proxy.port)).storage_connection)
        hub = {"SUBMIT_TO": "hub", "EventHubConnection": "UseDevelopmentEmulator=true"}
        settings = {
            **options.settings,
            **self.remotes.settings,
            **_state_store(seen_by_host),
            **(hub if self.submit_to == "hub" else {}),
        }
        return whole_platform(replace(options, settings=settings), addresses)


def _state_store(connections: Sequence[str]) -> dict[str, str]:
    if len(connections) == 1:
        return {"StateStore": connections[0]}
    numbered = {f"StateStore__{number}": connection for number, connection in enumerate(connections)}
    return {**numbered, "STATE_SHARDS": _SHARDS}
