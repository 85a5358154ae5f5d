"""The fault switches of the sample services, and the table of the faults that are set."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.core.json_values import PLAIN_NUMBER
from functions.services.resources import RESOURCE_ID_PATTERN
from functions.services.service import SERVICES_PATH
from functions.storage.index_pages import every_page
from functions.storage.table_contract import Row, RowChange, RowQuery, Table, write

_NEVER = datetime.min.replace(tzinfo=UTC)

#: Instead of a resource's id: every resource of the service.
EVERY_ID = "*"


class CallFault(StrEnum):
    """The kinds of faults of a call."""

    #: The call is delayed, and then done.
    SLOW = "slow"
    #: Nothing is done, and the answer is 503.
    FAIL = "fail"
    #: Nothing is done, and the answer is 504 after a delay.
    HANG = "hang"
    #: The work is done, but the caller gets 504 instead of the answer.
    LOSE_ANSWER = "lose-answer"
    #: Every call but an undo is refused with 422, which is permanent.
    REFUSE = "refuse"
    #: An undo (`DELETE`) is refused with 422, which is permanent.
    REFUSE_UNDO = "refuse-undo"


#: The status of each fault. A slow call has the status of its service.
_STATUSES = {
    CallFault.FAIL: HTTPStatus.SERVICE_UNAVAILABLE,
    CallFault.HANG: HTTPStatus.GATEWAY_TIMEOUT,
    CallFault.LOSE_ANSWER: HTTPStatus.GATEWAY_TIMEOUT,
    CallFault.REFUSE: HTTPStatus.UNPROCESSABLE_ENTITY,
    CallFault.REFUSE_UNDO: HTTPStatus.UNPROCESSABLE_ENTITY,
}


class Fault(BaseModel):
    """One fault: its kind, the number of calls (null: all), and the delay in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CallFault
    times: Annotated[int, PLAIN_NUMBER, Field(ge=1, le=1_000)] | None = None
    seconds: Annotated[float, PLAIN_NUMBER, Field(ge=0, le=120)] = 0

    @model_validator(mode="after")
    def _check_seconds(self) -> Self:
        if self.kind in {CallFault.SLOW, CallFault.HANG} and self.seconds == 0:
            raise ValueError(f"kind '{self.kind}' needs seconds")
        return self

    def concerns(self, method: str) -> bool:
        """Return whether the fault applies to a call with this HTTP method."""
        if self.kind is CallFault.REFUSE:
            return method != "DELETE"
        return self.kind is not CallFault.REFUSE_UNDO or method == "DELETE"


class FaultView(Fault):
    """A fault switch that is set; `times` is the number of calls that it still applies to."""

    service: str
    id: str


class Faults:
    """Sets faults, ends them, and counts the calls to which they apply."""

    def __init__(self, table: Table, now: Callable[[], datetime]) -> None:
        self._table, self._now = table, now
        self._set_at: dict[str, datetime] = {}
        self._quiet_at: dict[str, datetime] = {}

    async def set(self, service: str, resource_id: str, fault: Fault) -> None:
        """Apply the fault to the calls for a resource, or for `EVERY_ID`, from now on."""
        await write(self._table, service, [RowChange("upsert", resource_id, _row_of(fault))])
        self._set_at[service] = self._now()

    async def end(self, service: str, resource_id: str) -> None:
        """End the fault of a resource, if there is one."""
        await write(self._table, service, [RowChange("delete", resource_id)])

    async def standing(self, services: Collection[str]) -> list[FaultView]:
        """Return the faults that are set."""
        return [
            FaultView(service=service, id=row["RowKey"], **_fault_of(row).model_dump())
            for service in services
            async for page in every_page(self._table, service, _ALL)
            for row in page.rows
        ]

    async def take(self, service: str, resource_id: str, method: str) -> Fault | None:
        """Return the fault of this call, and count the call. A resource's fault comes before `EVERY_ID`."""
        while not await self._is_quiet(service):
            row = await self._find(service, resource_id, method)
            if row is None:
                return None
            if await self._count(service, row):
                return _fault_of(row)
        return None

    async def _is_quiet(self, service: str) -> bool:
        """Return whether the service has no faults. The answer of the table is valid for a second."""
        now = self._now()
        quiet_at = self._quiet_at.get(service, _NEVER)
        if self._set_at.get(service, _NEVER) < quiet_at <= now < quiet_at + timedelta(seconds=1):
            return True
        page = await self._table.query(service, _ALL)
        if page.rows or page.continuation is not None:
            return False
        self._quiet_at[service] = now
        return True

    async def _find(self, service: str, resource_id: str, method: str) -> Row | None:
        for faulty in (resource_id, EVERY_ID):
            row = await self._table.read(service, faulty)
            if row is not None and _fault_of(row).concerns(method):
                return row
        return None

    async def _count(self, service: str, row: Row) -> bool:
        """Count a call by compare-and-swap; False when another call was counted at the same moment."""
        fault, key, etag = _fault_of(row), str(row["RowKey"]), str(row["odata.etag"])
        if fault.times is None:
            return True
        counted = RowChange("delete", key, etag=etag)
        if fault.times > 1:
            left = fault.model_copy(update={"times": fault.times - 1})
            counted = RowChange("update", key, _row_of(left), etag)
        return await write(self._table, service, [counted])


#: The keys of all faults of a service.
_ALL = RowQuery(EVERY_ID, "~")


def _row_of(fault: Fault) -> Row:
    return {"Fault": fault.model_dump_json()}


def _fault_of(row: Row) -> Fault:
    return Fault.model_validate_json(row["Fault"])


_RESOURCE = re.compile(rf"{SERVICES_PATH}/(?P<service>[^/]+)/(?P<id>{RESOURCE_ID_PATTERN.strip('^$')})")


class FaultyCalls:
    """Applies the faults to calls. A caller whose answer is lost gets 504, as from a gateway."""

    def __init__(self, app: ASGIApp, *, services: Collection[str], faults: Faults) -> None:
        self._app = app
        self._services = services
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        fault = await self._fault_of(scope)
        if fault is None:
            await self._app(scope, receive, send)
        else:
            await self._fail(fault, scope, receive, send)

    async def _fault_of(self, scope: Scope) -> Fault | None:
        called = _RESOURCE.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if called is None or called["service"] not in self._services:
            return None
        # Faults are set by a task's id alone: its run id is known only after admission.
        return await self._faults.take(called["service"], called["id"].partition(".")[0], scope["method"])

    async def _fail(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.kind is CallFault.LOSE_ANSWER:
            await self._app(scope, receive, _lose)
        await asyncio.sleep(fault.seconds)
        if fault.kind is CallFault.SLOW:
            await self._app(scope, receive, send)
        else:
            answer = PlainTextResponse(f"fault switch: {fault.kind}", _STATUSES[fault.kind])
            await answer(scope, receive, send)


async def _lose(_message: Message) -> None:
    """Drop a part of an answer."""
