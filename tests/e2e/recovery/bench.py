"""One platform with the tests' workflows, its callers, its operators and the remote service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from local.platform import ANY_PORTS, ROOT, Platform, PlatformOptions
from tests.e2e.recovery.remote import RemoteService
from tests.e2e.recovery.workflows import CARGO, STEPS

#: Seconds that a test waits at most: more than any machine needs.
PATIENCE = 120.0

APP = Path(__file__).parent / "app"
_QUEUES = ROOT / "infra" / "queues.json"
_LOOK_EVERY = 0.1
_SETTINGS = {
    "SUPERVISOR_THRESHOLD": "1",
    "EXTENDED_WAITS": "2",
    "SKEW_SECONDS": "0.5",
    # Only the step that tests hold up has a short limit: a busy machine has time for the others.
    "STEP_SECONDS": "orders.payment=5,undone.a=60,undone.c=60,kept.a=60,kept.c=60",
    "BREAKER_FAILURES": "100000",
    "STATE_SHARDS": "4",
}

type Task = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bench:
    """The platform and all that surrounds it; `settings` are the application's."""

    settings: Mapping[str, str]
    platform: Platform
    session: aiohttp.ClientSession
    remote: RemoteService

    async def submit(self, task: str, resource: str = "undone", content: Mapping[str, Any] = CARGO) -> None:
        """Submit an order under the given id."""
        async with self.session.put(f"/api/{resource}/{task}", json=content) as answer:
            assert answer.status == 202, await answer.text()

    async def look_at(self, task: str) -> Task | None:
        """Read a task as operators see it; None while it is not recorded."""
        async with self.session.get(f"/api/ops/tasks/{task}") as answer:
            if answer.status == 404:
                return None
            assert answer.status == 200, await answer.text()
            found: Task = await answer.json()
            return found

    async def until(self, task: str, wanted: Callable[[Task], bool]) -> Task:
        """Poll a task until a condition holds. Fails with the last state that was read."""
        found: Task | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := await self.look_at(task)) is None or not wanted(found):
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            raise AssertionError(f"timed out: {found}") from None
        return found

    async def until_state(self, task: str, state: str) -> Task:
        """Poll a task until it is in `state`."""
        return await self.until(task, lambda found: found["state"] == state)

    async def until_called(self, effect: str, times: int = 1) -> None:
        """Wait until the remote service was called for an effect."""
        await until(lambda: self.remote.called(effect) >= times)

    async def until_alerted(self, task: str) -> None:
        """Wait until the operator has received an alert about a task, and none is still to be sent."""
        await until(lambda: bool(self.remote.alerts_about(task)))
        await self.until_empty("operator-alerts")

    async def until_empty(self, queue: str) -> None:
        """Wait until a queue has no message, waiting or locked."""
        await self.until_messages(queue, 0)

    async def until_messages(self, queue: str, count: int) -> None:
        """Wait until a queue has `count` messages, waiting or locked."""
        async with asyncio.timeout(PATIENCE):
            while await self._messages(queue) != count:
                await asyncio.sleep(_LOOK_EVERY)

    async def _messages(self, queue: str) -> int:
        async with self.session.get(f"{self.platform.addresses.admin}/queues") as answer:
            figures = next(each for each in await answer.json() if each["name"] == queue)
            return int(figures["active"])

    async def act(self, task: str, action: str, *, result: Mapping[str, Any] | None = None) -> int:
        """Act on a task as its operator, perhaps with a step's result, and return the status."""
        url = f"/api/ops/tasks/{task}/{action}"
        body = {"reason": "the service is fixed"} | ({} if result is None else {"result": result})
        async with self.session.post(url, json=body, headers={"X-Requested-With": "bench"}) as answer:
            return answer.status


async def until(true: Callable[[], bool]) -> None:
    """Wait until a condition holds. Raises `TimeoutError`."""
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(_LOOK_EVERY)


@asynccontextmanager
async def running(data: Path, settings: Mapping[str, str]) -> AsyncIterator[Bench]:
    """Run a platform with the tests' workflows and their scripted remote service."""
    async with RemoteService().serving() as remote:
        chosen = {
            **_SETTINGS,
            **settings,
            **{f"{step.upper()}_URL": f"{remote.url}/{step}" for step in STEPS},
            "PAYMENT_URL": f"{remote.url}/payments",
        }
        async with bench_with(remote, data, chosen, app=APP) as bench:
            remote.payments_url = f"{bench.platform.addresses.services}/payments"
            yield bench


@asynccontextmanager
async def bench_with(
    remote: RemoteService, data: Path, settings: Mapping[str, str], *, app: Path
) -> AsyncIterator[Bench]:
    """Run a platform that sends its alerts to the scripted remote service."""
    chosen = {**settings, "ALERT_WEBHOOK_URL": f"{remote.url}/alerts"}
    options = PlatformOptions(
        ports=ANY_PORTS, data=data, app=app, settings=chosen, queues=_QUEUES, in_memory_storage=True
    )
    async with (
        Platform(options) as platform,
        aiohttp.ClientSession(platform.addresses.host) as session,
    ):
        yield Bench({**chosen, **connections_of(platform)}, platform, session, remote)


def connections_of(platform: Platform) -> dict[str, str]:
    """Return the settings with the connections of a platform's application."""
    addresses = platform.addresses
    return {
        "AzureWebJobsStorage": addresses.storage_connection,
        "StateStore": addresses.storage_connection,
        "ServiceBusConnection": addresses.service_bus_connection,
    }


def ends(task: Task) -> list[str]:
    """Return why each closed epoch of a task ended, the first one first."""
    return [epoch["end"] for epoch in task["history"]]


def step(task: Task, name: str) -> dict[str, Any]:
    """Return one step of a task."""
    found: dict[str, Any] = next(each for each in task["steps"] if each["name"] == name)
    return found


def actions(task: Task) -> set[str]:
    """Return the names of the actions that a task accepts."""
    return {each["action"] for each in task["actions"]} - {None}
