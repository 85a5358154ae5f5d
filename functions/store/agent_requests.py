"""The table of the Agents: requests that must not be carried out twice, each begun once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient
from pydantic import ValidationError
from pydantic_core import from_json

from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.agent_requests import Begun
from functions.pattern.errors import TransientError
from functions.pattern.ports import Clock
from functions.store.connect import table_faults
from functions.store.retention import delete_old_rows

AGENT_REQUESTS_TABLE = "AgentRequests"


class TableAgentRequests:
    """One row for each request, under a digest of its token, which is a secret."""

    def __init__(self, table: TableClient, *, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def begin(self, request: AgentRequest, delivery: str, late: AgentReply | None = None) -> Begun:
        """Record that `delivery` begins the request, if no other has begun it; harmless when repeated.

        Where it is too `late`, record that reply with it: then none begins it.
        """
        row: dict[str, Any] = {
            **_keys(request),
            "Delivery": delivery,
            "Task": request.task_id,
            "Step": request.step,
            "Epoch": request.epoch,
            "BegunAt": self._clock.now(),
            "CompleteBy": request.complete_by,
        }
        if late is not None:
            row |= self._replied(late)
        with table_faults():
            try:
                await self._table.create_entity(row)
            except ResourceExistsError:  # maybe our own, whose answer was lost
                there = await self._table.get_entity(row["PartitionKey"], row["RowKey"])
                return Begun(by_us=there["Delivery"] == delivery, reply=_reply(request, there))
        return Begun(by_us=True, reply=late)

    async def find(self, request: AgentRequest) -> Begun | None:
        """Look whether another delivery has begun the request."""
        keys = _keys(request)
        with table_faults():
            try:
                there = await self._table.get_entity(keys["PartitionKey"], keys["RowKey"])
            except ResourceNotFoundError:
                return None
        return Begun(by_us=False, reply=_reply(request, there))

    async def replied(self, request: AgentRequest, reply: AgentReply) -> None:
        """Record the reply to a request that was begun."""
        with table_faults():
            await self._table.update_entity(_keys(request) | self._replied(reply), mode=UpdateMode.MERGE)

    def _replied(self, reply: AgentReply) -> dict[str, Any]:
        outcome = reply.model_dump_json(exclude={"token"}).encode()
        return {"Reply": outcome, "RepliedAt": self._clock.now()}

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete up to `most` requests whose complete-by lies before that time; give how many."""
        return await delete_old_rows(self._table, "CompleteBy lt @before", before, most)


def _keys(request: AgentRequest) -> dict[str, str]:
    digest = hashlib.sha256(request.token.encode()).hexdigest()
    return {"PartitionKey": digest[0], "RowKey": digest}


def _reply(request: AgentRequest, row: Mapping[str, Any]) -> AgentReply | None:
    """Read the recorded reply, which lacks the token."""
    if row.get("Reply") is None:
        return None
    try:
        return AgentReply.model_validate({**from_json(row["Reply"]), "token": request.token})
    except (ValidationError, ValueError, TypeError) as error:
        raise TransientError(f"{AGENT_REQUESTS_TABLE}: row {row['RowKey']} can't be read") from error
