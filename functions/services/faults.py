"""The fault switches of the sample services: what goes wrong with which calls, and the table of those set."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Self

from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableEntity, TableTransactionError, UpdateMode
from azure.data.tables.aio import TableClient
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.core.json_values import PLAIN_NUMBER
from functions.services.resources import RESOURCE_ID_PATTERN
from functions.services.service import SERVICES_PATH

_NEVER = datetime.min.replace(tzinfo=UTC)

#: Instead of a resource's id: every resource of the service.
EVERY_ID = "*"


class CallFault(StrEnum):
    """How a call goes wrong."""

    #: It is delayed, and its work is done late.
    SLOW = "slow"
    #: Nothing is done, and the answer is 503.
    FAIL = "fail"
    #: Nothing is done, and the answer is 504.
    HANG = "hang"
    #: The work is done, but the caller gets 504 instead of the answer.
    LOSE_ANSWER = "lose-answer"
    #: Nothing is done, and all but an undo is refused with 422, which is permanent.
    REFUSE = "refuse"
    #: Nothing is done, and an undo (`DELETE`) is refused with 422, which is permanent.
    REFUSE_UNDO = "refuse-undo"


#: The answer to a call that goes wrong; a slow one has its own.
_STATUSES = {
    CallFault.FAIL: HTTPStatus.SERVICE_UNAVAILABLE,
    CallFault.HANG: HTTPStatus.GATEWAY_TIMEOUT,
    CallFault.LOSE_ANSWER: HTTPStatus.GATEWAY_TIMEOUT,
    CallFault.REFUSE: HTTPStatus.UNPROCESSABLE_ENTITY,
    CallFault.REFUSE_UNDO: HTTPStatus.UNPROCESSABLE_ENTITY,
}


class Fault(BaseModel):
    """One fault switch: what goes wrong, for how many calls (null: for all), after a delay in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CallFault
    times: Annotated[int, PLAIN_NUMBER, Field(ge=1, le=1_000)] | None = None
    seconds: Annotated[float, PLAIN_NUMBER, Field(ge=0, le=120)] = 0

    @model_validator(mode="after")
    def _is_felt(self) -> Self:
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

    def __init__(self, table: TableClient, now: Callable[[], datetime]) -> None:
        self._table = table
        self._now = now
        self._set_at: dict[str, datetime] = {}
        self._quiet_at: dict[str, datetime] = {}

    async def set(self, service: str, resource_id: str, fault: Fault) -> None:
        """Apply the fault to the calls for a resource, or for `EVERY_ID`, from now on."""
        row = _key(service, resource_id) | fault.model_dump(mode="json", exclude_none=True)
        await self._table.upsert_entity(row, mode=UpdateMode.REPLACE)
        self._set_at[service] = self._now()

    async def end(self, service: str, resource_id: str) -> None:
        """End the fault of a resource, if there is one."""
        await self._table.delete_entity(_key(service, resource_id))

    async def standing(self) -> list[FaultView]:
        """Return the faults that are set, of all services."""
        return [
            FaultView(service=row["PartitionKey"], id=row["RowKey"], **_fault_of(row).model_dump())
            async for row in self._table.list_entities()
        ]

    async def take(self, service: str, resource_id: str, method: str) -> Fault | None:
        """Return the fault for this call, and count it; the resource's own comes before `EVERY_ID`'s."""
        while not await self._is_quiet(service):
            row = await self._find(service, resource_id, method)
            if row is None:
                return None
            if await self._count(row):
                return _fault_of(row)
        return None

    async def _is_quiet(self, service: str) -> bool:
        """Return whether the service had no faults a second ago, so that few calls wait for the table."""
        now = self._now()
        quiet_at = self._quiet_at.get(service, _NEVER)
        if self._set_at.get(service, _NEVER) < quiet_at <= now < quiet_at + timedelta(seconds=1):
            return True
        rows = self._table.query_entities(
            "PartitionKey eq @service", parameters={"service": service}, results_per_page=1
        )
        async for _row in rows:
            return False
        self._quiet_at[service] = now
        return True

    async def _find(self, service: str, resource_id: str, method: str) -> TableEntity | None:
        for faulty in (resource_id, EVERY_ID):
            with suppress(ResourceNotFoundError):
                row = await self._table.get_entity(service, faulty)
                if _fault_of(row).concerns(method):
                    return row
        return None

    async def _count(self, row: TableEntity) -> bool:
        """Count a call by compare-and-swap; False when another call was counted at the same moment."""
        if "times" not in row:
            return True
        change = "update" if row["times"] > 1 else "delete"
        counted = _key(row["PartitionKey"], row["RowKey"]) | {"times": row["times"] - 1}
        unchanged = {"etag": row.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
        try:
            await self._table.submit_transaction([(change, counted, unchanged)])
        except TableTransactionError as error:
            if error.status_code in {HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED}:
                return False
            raise
        return True


def _key(service: str, resource_id: str) -> dict[str, Any]:
    return {"PartitionKey": service, "RowKey": resource_id}


def _fault_of(row: Mapping[str, Any]) -> Fault:
    return Fault(kind=row["kind"], times=row.get("times"), seconds=row["seconds"])


_RESOURCE = re.compile(rf"{SERVICES_PATH}/(?P<service>[^/]+)/(?P<id>{RESOURCE_ID_PATTERN.strip('^$')})")


class FaultyCalls:
    """Handles calls as the set fault says; an answer is lost as a gateway loses it, by 504."""

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
        # Faults are set by a task's id alone: its birth is known only once it is admitted.
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
