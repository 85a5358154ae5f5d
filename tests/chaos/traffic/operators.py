"""Two operators who act on the same order in `Error` at the same moment; only one may succeed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import aiohttp

from local.callers.client import OrderClient, OrderRefusedError, OrderState
from local.platform import Addresses
from tests.chaos.plan.schedule import Scenario
from tests.chaos.remotes.call_faults import CallFaults

#: What operators do with orders of these scenarios, one after the other until they may; they do nothing with
#: all others. A payment that was made with an answer that can't be read gets its result from them.
ACTIONS: Mapping[Scenario, Sequence[str]] = {
    Scenario.FIXED: ["resubmit"],
    Scenario.GARBLED: ["steps/payment/done", "resubmit"],
    Scenario.UNDONE: ["undo"],
}
_TIMEOUT = aiohttp.ClientTimeout(total=8)
_LOOK_EVERY = 1.0
_BODY: Mapping[str, Any] = {"reason": "chaos: the cause is fixed"}
#: The header that operators' actions need, so that no other web site can send them.
_HEADERS = {"X-Requested-With": "chaos"}


class Operators:
    """Act on the orders that need it, until each was acted on or has ended otherwise.

    Each of the two uses a host of its own, if there are two.
    """

    def __init__(
        self, hosts: Sequence[Addresses], scenarios: Mapping[str, Scenario], call_faults: CallFaults
    ) -> None:
        self._callers_url = hosts[0].host
        self._urls = (hosts[0].operators, hosts[-1].operators)
        self._waiting = {
            order: deque(ACTIONS[scenario]) for order, scenario in scenarios.items() if scenario in ACTIONS
        }
        self._call_faults = call_faults
        self._both_won: list[str] = []

    @property
    def both_won(self) -> list[str]:
        """Orders for which both operators were told that their action had opened the same epoch."""
        return self._both_won

    @property
    def waiting(self) -> list[str]:
        """Orders that still need an operator."""
        return list(self._waiting)

    async def act_on_all(self) -> None:
        """Check each waiting order regularly; ends when none is left."""
        async with (
            OrderClient.at(self._callers_url) as orders,
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
        ):
            while self._waiting:
                for order in self.waiting:
                    try:
                        await self._look(order, orders, session)
                    except (aiohttp.ClientError, OrderRefusedError, TimeoutError):
                        continue  # the host is down; the order is checked again
                await asyncio.sleep(_LOOK_EVERY)

    async def _look(self, order: str, orders: OrderClient, session: aiohttp.ClientSession) -> None:
        seen = await orders.look_at(order)
        if seen is None or not seen.is_finished:
            return
        if seen.state is OrderState.ERROR:
            await self._act(order, session)
        else:
            del self._waiting[order]

    async def _act(self, order: str, session: aiohttp.ClientSession) -> None:
        self._call_faults.fix(order)
        action = self._waiting[order][0]
        address = f"/api/ops/tasks/{order}/{action}"
        body = {**_BODY, "result": {"done": True}} if action.endswith("done") else _BODY
        epochs = await asyncio.gather(*(_post(session, url + address, body) for url in self._urls))
        opened = [epoch for epoch in epochs if epoch]
        if len(opened) > len(set(opened)):
            self._both_won.append(order)
        if opened:
            del self._waiting[order]
        else:
            self._waiting[order].rotate()


async def _post(session: aiohttp.ClientSession, address: str, body: Mapping[str, Any]) -> int | None:
    """Request the action, and return the epoch that it opened; None when it was refused."""
    async with session.post(address, json=body, headers=_HEADERS) as answer:
        if answer.status != HTTPStatus.ACCEPTED:
            return None
        epoch: int = (await answer.json())["epoch"]
        return epoch
