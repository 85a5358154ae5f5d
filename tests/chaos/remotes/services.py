"""The remote services over HTTP: `PUT /payments/{id}` pays once for each key, `DELETE` undoes for good."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from random import Random

from aiohttp import web

from tests.chaos.app.deployment import RECEIPT
from tests.chaos.app.sending import SENT, Sending, read_sending
from tests.chaos.plan.faults import InjectedFault
from tests.chaos.remotes.call_faults import CallFaults
from tests.chaos.remotes.ledger import CallDirection, Effect, Ledger, ServiceCall
from tests.simulation.drawn.workflows import AGENTS as DRAWN_AGENTS

#: Seconds; the longer ones end after complete-by.
_SLOW = (0.5, 6.0)
#: The seconds that a throttled caller is to wait, and those after which a hanging call ends.
_RETRY_LATER = {"Retry-After": "1"}
_HANGS = 30.0
#: Seconds within which the undo must come that an overtaken payment waits for.
_UNDONE_WITHIN = 300.0


#: The services by their Agents.
SERVICES: Mapping[str, str] = {
    "payment": "payments",
    RECEIPT: "receipts",
    **{agent: agent for agent in DRAWN_AGENTS},
}


class FaultyServices:
    """Answers each call with its fault, if it has one, and writes it into the ledger."""

    def __init__(self, ledger: Ledger, call_faults: CallFaults, random: Random) -> None:
        self._ledger = ledger
        self._call_faults = call_faults
        self._random = random

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to serve."""
        return [
            route
            for service in SERVICES.values()
            for route in (
                web.put(f"/{service}/{{resource}}", self._put),
                web.delete(f"/{service}/{{resource}}", self._delete),
            )
        ]

    async def _put(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, CallDirection.DO)

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, CallDirection.UNDO)

    async def _answer(self, request: web.Request, direction: CallDirection) -> web.StreamResponse:
        order = request.match_info["resource"].partition(".")[0]  # its birth is in the key as well
        sending = _sending_of(request)
        call = self._ledger.arrive(order, request.headers.get("Idempotency-Key", ""), direction, sending)
        return await self._with_fault(self._call_faults.next_for(call), call, request)

    async def _with_fault(
        self, fault: InjectedFault | None, call: ServiceCall, request: web.Request
    ) -> web.StreamResponse:
        match fault:
            case InjectedFault.PAYMENT_REFUSED | InjectedFault.UNDO_REFUSED:
                return web.Response(status=HTTPStatus.BAD_REQUEST)
            case InjectedFault.PAYMENT_FAILING | InjectedFault.UNDO_FAILING:
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
            case InjectedFault.PAYMENT_THROTTLED:
                return web.Response(status=HTTPStatus.TOO_MANY_REQUESTS, headers=_RETRY_LATER)
            case InjectedFault.PAYMENT_HANGING:
                await asyncio.sleep(_HANGS)
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
            case _:
                return await self._carry_out(fault, call, request)

    async def _carry_out(
        self, fault: InjectedFault | None, call: ServiceCall, request: web.Request
    ) -> web.StreamResponse:
        if fault is InjectedFault.PAYMENT_SLOW:
            await asyncio.sleep(self._random.uniform(*_SLOW))
        if fault is InjectedFault.PAYMENT_AFTER_UNDO:
            await self._until_undone(call)
        effect = self._ledger.carry_out(call)
        if fault is InjectedFault.PAYMENT_ANSWER_LOST and request.transport is not None:
            request.transport.close()
        if fault is InjectedFault.PAYMENT_MALFORMED:
            return web.Response(status=HTTPStatus.CREATED, text="<html>", content_type="text/html")
        return _answer_to(effect)

    async def _until_undone(self, call: ServiceCall) -> None:
        async with asyncio.timeout(_UNDONE_WITHIN):
            await self._ledger.until_undone(call)


def _sending_of(request: web.Request) -> Sending:
    """Read when a call was sent; one that does not tell stands in the ledger with its arrival."""
    if told := request.headers.get(SENT):
        return read_sending(told)
    now = datetime.now(UTC)
    return Sending(at=now, turn=now, ends_at=now, complete_by=now)


def _answer_to(effect: Effect) -> web.Response:
    match effect:
        case Effect.PERFORMED:
            return web.json_response({"done": True}, status=HTTPStatus.CREATED)
        case Effect.TOMBSTONED:
            return web.Response(status=HTTPStatus.GONE)
        case _:
            return web.Response(status=HTTPStatus.NO_CONTENT)
