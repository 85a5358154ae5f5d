"""Many orders at once, and how they have ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.platform import Platform
from tests.e2e.caller import ORDER, Caller, rows, running
from tests.e2e.crowds.payments import SlowPayments

#: The most that one request may hold.
_BATCH = 500
_LOOK_EVERY = 5.0
#: Fewer looks at many orders: each reads all of their rows.
_LOOK_EVERY_OF_EACH = 0.004

#: Shows progress: so many of all.
type Show = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Ends:
    """How orders have ended: counts by state, by epoch, and by failure count."""

    states: Mapping[str, int]
    epochs: Mapping[int, int]
    failures: Mapping[int, int]

    @classmethod
    def of(cls, tasks: Sequence[Mapping[str, Any]]) -> Ends:
        """Count what the tasks' rows say."""
        return cls(
            Counter(row["ProcessState"] for row in tasks),
            Counter(int(row["Epoch"]) for row in tasks),
            Counter(int(row["FailureCount"]) for row in tasks),
        )

    @property
    def finished(self) -> int:
        """Tell how many are at an end."""
        return sum(self.states.get(state, 0) for state in ("Processed", "Compensated", "Error"))


@dataclass(frozen=True, slots=True)
class Crowd:
    """A platform with its slow payment service, and a caller."""

    platform: Platform
    payments: SlowPayments
    caller: Caller

    @classmethod
    @asynccontextmanager
    async def at(
        cls, data: Path, payments: SlowPayments, settings: Mapping[str, str]
    ) -> AsyncIterator[Crowd]:
        """Run a platform with this service."""
        async with (
            payments.serving(),
            running(data, {**payments.settings, **settings}) as platform,
            Caller.of(platform) as caller,
        ):
            yield cls(platform, payments, caller)

    async def submit(self, orders: int) -> None:
        """Submit so many orders, in batches at once."""
        ids = [f"crowd-{number}" for number in range(orders)]
        batches = [ids[first : first + _BATCH] for first in range(0, orders, _BATCH)]
        await asyncio.gather(*map(self._submit_batch, batches))

    async def _submit_batch(self, ids: Sequence[str]) -> None:
        batch = {"orders": [{**ORDER, "id": each} for each in ids]}
        async with self.caller.session.post("/api/orders/batch", json=batch) as answer:
            results = (await answer.json())["results"]
            assert {each["status"] for each in results} == {202}, results[0]

    async def ends(self) -> Ends:
        """Read how the orders have ended so far."""
        query = "ProcessState ne ''"
        found = await asyncio.to_thread(rows, self.platform, "Tasks", query)
        return Ends.of([row for row in found if row["RowKey"].endswith("|task")])

    async def until(self, wanted: Callable[[Ends], bool], show: Show, within: float) -> Ends:
        """Look until a condition holds. Fails with what was there last."""
        ends = await self.ends()
        try:
            async with asyncio.timeout(within):
                while not wanted(ends):
                    await asyncio.sleep(max(_LOOK_EVERY, _LOOK_EVERY_OF_EACH * sum(ends.states.values())))
                    ends = await self.ends()
                    show(ends.finished)
        except TimeoutError:
            raise AssertionError(f"not within {within:.0f} s: {ends}") from None
        return ends

    async def circuit(self) -> Mapping[str, Any] | None:
        """Read the payment service's circuit, as operators see it; None before it is recorded."""
        async with self.caller.session.get("/api/ops/overview") as answer:
            breakers = (await answer.json())["breakers"]
        return next((each for each in breakers if each["service"] == "payment"), None)
