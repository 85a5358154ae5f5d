"""The payment service over HTTP: `PUT /payments/{id}` pays once for each key, `DELETE` undoes for good."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from random import Random

from aiohttp import web

from tests.chaos.faults import FaultKind
from tests.chaos.payments.ledger import Call, Direction, Effect, Ledger
from tests.chaos.payments.troubles import Troubles

#: Seconds; the longer answers come after complete-by.
_SLOW = (0.5, 6.0)
#: Seconds that a caller is asked to wait, and those after which a hanging call ends at the latest.
_LEAVE_ALONE = {"Retry-After": "1"}
_HANGS = 30.0
#: Seconds after which the undo that a belated payment waits for will not come any more.
_BELATED_WITHIN = 300.0


class PaymentService:
    """Answers calls as `troubles` says and writes them into the ledger."""

    def __init__(self, ledger: Ledger, troubles: Troubles, random: Random) -> None:
        self._ledger = ledger
        self._troubles = troubles
        self._random = random

    def routes(self) -> list[web.RouteDef]:
        """Give the routes to serve."""
        return [web.put("/payments/{order}", self._put), web.delete("/payments/{order}", self._delete)]

    async def _put(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, Direction.DO)

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, Direction.UNDO)

    async def _answer(self, request: web.Request, direction: Direction) -> web.StreamResponse:
        order = request.match_info["order"]
        call = self._ledger.arrive(order, request.headers.get("Idempotency-Key", ""), direction)
        return await self._meet(self._troubles.meet(order, direction), call, request)

    async def _meet(self, trouble: FaultKind | None, call: Call, request: web.Request) -> web.StreamResponse:
        match trouble:
            case FaultKind.PAYMENT_REFUSED | FaultKind.UNDO_REFUSED:
                return web.Response(status=HTTPStatus.BAD_REQUEST)
            case FaultKind.PAYMENT_FAILING | FaultKind.UNDO_FAILING:
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
            case FaultKind.PAYMENT_THROTTLED:
                return web.Response(status=HTTPStatus.TOO_MANY_REQUESTS, headers=_LEAVE_ALONE)
            case FaultKind.PAYMENT_HANGING:
                await asyncio.sleep(_HANGS)
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
            case _:
                return await self._carry_out(trouble, call, request)

    async def _carry_out(
        self, trouble: FaultKind | None, call: Call, request: web.Request
    ) -> web.StreamResponse:
        if trouble is FaultKind.PAYMENT_SLOW:
            await asyncio.sleep(self._random.uniform(*_SLOW))
        if trouble is FaultKind.PAYMENT_BELATED:
            await self._until_undone(call.order)
        effect = self._ledger.carry_out(call)
        if trouble is FaultKind.PAYMENT_FORGETFUL and request.transport is not None:
            request.transport.close()
        if trouble is FaultKind.PAYMENT_MALFORMED:
            return web.Response(status=HTTPStatus.CREATED, text="<html>", content_type="text/html")
        return _answer_to(effect)

    async def _until_undone(self, order: str) -> None:
        async with asyncio.timeout(_BELATED_WITHIN):
            await self._ledger.until_undone(order)


def _answer_to(effect: Effect) -> web.Response:
    match effect:
        case Effect.PERFORMED:
            return web.json_response({"done": True}, status=HTTPStatus.CREATED)
        case Effect.TOMBSTONED:
            return web.Response(status=HTTPStatus.GONE)
        case _:
            return web.Response(status=HTTPStatus.NO_CONTENT)
