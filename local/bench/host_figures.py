"""The counters of the application and of the host."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import aiohttp

#: Seconds after which a phase counts as failed.
_PATIENCE = 300.0
_LOOK_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts since the host started; `since` gives those of a phase."""

    transactions: int
    operations: int
    reads: int
    messages: int
    episodes: int
    activities: int

    def since(self, before: Figures) -> Figures:
        """Return the counts from `before` until this."""
        return Figures(
            transactions=self.transactions - before.transactions,
            operations=self.operations - before.operations,
            reads=self.reads - before.reads,
            messages=self.messages - before.messages,
            episodes=self.episodes - before.episodes,
            activities=self.activities - before.activities,
        )


async def completed_orchestrations(session: aiohttp.ClientSession) -> int:
    """Count the orchestrations that the host has completed since it started."""
    return (await _durable(session)).get("orchestrations_completed", 0)


async def until_completed(session: aiohttp.ClientSession, count: int) -> None:
    """Wait until the host has completed `count` orchestrations. Raises `TimeoutError`."""
    async with asyncio.timeout(_PATIENCE):
        while await completed_orchestrations(session) < count:  # noqa: ASYNC110 - another process counts
            await asyncio.sleep(_LOOK_EVERY)


async def read_figures(session: aiohttp.ClientSession) -> Figures:
    """Read all counts, without access to tables or queues."""
    durable = await _durable(session)
    async with session.get("/api/ops/figures") as answer:
        application = await answer.json()
    return Figures(
        transactions=application["table_storage"]["transactions"],
        operations=application["table_storage"]["operations"],
        reads=application["table_storage"]["reads"],
        messages=application["service_bus"]["messages"],
        episodes=durable.get("episodes_run", 0),
        activities=durable.get("activities_run", 0),
    )


async def _durable(session: aiohttp.ClientSession) -> dict[str, int]:
    async with session.get("/admin/host/status") as answer:
        durable: dict[str, int] = (await answer.json())["durable"]
    return durable
