"""Makes calls of the sample services fail as the fault switches say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from http import HTTPStatus
from typing import assert_never

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.services.faults import CallFault, Fault, Faults
from functions.services.resources import RESOURCE_ID_PATTERN
from functions.services.service import SERVICES_PATH

_RESOURCE = re.compile(rf"{SERVICES_PATH}/(?P<service>[^/]+)/(?P<id>{RESOURCE_ID_PATTERN.strip('^$')})")


class FaultyCalls:
    """Handles each call of the named services as the fault set for it says.

    An HTTP-triggered function can't cut a connection. So an answer is lost the way a gateway loses it: the
    caller gets 504, and can't know whether the work was done.
    """

    def __init__(self, app: ASGIApp, *, services: Collection[str], faults: Faults) -> None:
        self._app = app
        self._services = services
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the call through, unless a fault applies to it."""
        fault = await self._fault_of(scope)
        if fault is None:
            await self._app(scope, receive, send)
        else:
            await self._fail(fault, scope, receive, send)

    async def _fault_of(self, scope: Scope) -> Fault | None:
        called = _RESOURCE.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if called is None or called["service"] not in self._services:
            return None
        # Faults are set by a task's id alone: its birth is known only once it is admitted.
        return await self._faults.take(called["service"], called["id"].partition(".")[0], scope["method"])

    async def _fail(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        match fault.kind:
            case CallFault.SLOW:
                await asyncio.sleep(fault.seconds)
                await self._app(scope, receive, send)
                return
            case CallFault.LOSE_ANSWER:
                await self._app(scope, receive, _lose)
                status = HTTPStatus.GATEWAY_TIMEOUT
            case CallFault.HANG:
                status = HTTPStatus.GATEWAY_TIMEOUT
            case CallFault.FAIL:
                status = HTTPStatus.SERVICE_UNAVAILABLE
            case CallFault.REFUSE | CallFault.REFUSE_UNDO:
                status = HTTPStatus.UNPROCESSABLE_ENTITY
            case _:
                assert_never(fault.kind)
        await asyncio.sleep(fault.seconds)
        await PlainTextResponse(f"fault switch: {fault.kind}", status)(scope, receive, send)


async def _lose(_message: Message) -> None:
    """Drop a part of an answer."""
