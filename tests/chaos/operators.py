"""Two operators, who look after orders in `Error` at the same moment; one of them must come late."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp

from local.callers.client import OrderClient, OrderRefusedError, OrderState
from tests.chaos.payments.troubles import Troubles
from tests.chaos.plan import Fate

#: What operators do about an order; all others they leave as they are.
ACTIONS: Mapping[Fate, str] = {Fate.MENDED: "resubmit", Fate.MISHEARD: "resubmit", Fate.WITHDRAWN: "undo"}
_TIMEOUT = aiohttp.ClientTimeout(total=8)
_LOOK_EVERY = 1.0
_BODY = {"reason": "chaos: looked after by an operator"}
#: What operators' actions need, so that no strange web page can send them.
_HEADERS = {"X-Requested-With": "chaos"}


class Operators:
    """Looks after the orders that need it, until each of them was acted on or ended otherwise."""

    def __init__(self, url: str, fates: Mapping[str, Fate], troubles: Troubles) -> None:
        self._url = url
        self._waiting = {order: ACTIONS[fate] for order, fate in fates.items() if fate in ACTIONS}
        self._troubles = troubles
        self._both_won: list[str] = []

    @property
    def both_won(self) -> list[str]:
        """Orders of which both operators were told that theirs was the action that counted."""
        return self._both_won

    @property
    def waiting(self) -> list[str]:
        """Orders that are still to be looked after."""
        return list(self._waiting)

    async def look_after(self) -> None:
        """Look at each waiting order now and then; ends when there is none left."""
        async with (
            OrderClient.at(self._url) as orders,
            aiohttp.ClientSession(self._url, timeout=_TIMEOUT) as session,
        ):
            while self._waiting:
                for order in self.waiting:
                    try:
                        await self._look(order, orders, session)
                    except (aiohttp.ClientError, OrderRefusedError, TimeoutError):
                        continue  # the host is away; the order is looked at again
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
        self._troubles.mend(order)
        address = f"/api/ops/tasks/{order}/{self._waiting[order]}"
        opened = [
            epoch for epoch in await asyncio.gather(*(_post(session, address) for _ in range(2))) if epoch
        ]
        if len(opened) > len(set(opened)):
            self._both_won.append(order)
        if opened:
            del self._waiting[order]


async def _post(session: aiohttp.ClientSession, address: str) -> int | None:
    """Ask for the action, and give the epoch that it opened; None when it was refused."""
    async with session.post(address, json=_BODY, headers=_HEADERS) as answer:
        if answer.status != HTTPStatus.ACCEPTED:
            return None
        epoch: int = (await answer.json())["epoch"]
        return epoch
