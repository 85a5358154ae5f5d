"""The evidence is read in spite of connections that break."""

from __future__ import annotations

from unittest.mock import AsyncMock, MagicMock

import pytest
from aiohttp import web
from azure.core.exceptions import AzureError

from tests.chaos.evidence.tables import Tables
from tests.chaos.sample_evidence import ORDER, START
from tests.fakes.web_server import served

#: An answer without rows comes after so many broken connections; the client itself tries twice at most.
_BROKEN = 3


async def _ask(retries: int) -> list[dict[str, object]]:
    asked = 0

    async def rows(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked <= _BROKEN and request.transport is not None:
            request.transport.abort()
        return web.json_response({"value": []})

    app = web.Application()
    app.router.add_get("/account/{table}", rows)
    async with served(app) as url:
        connection = f"AccountName=account;AccountKey=a2V5;TableEndpoint={url}/account"
        async with Tables.at(connection, retries=retries) as tables:
            return await tables.rejected()


async def test_evidence_is_read_again() -> None:
    """As often as it takes."""
    assert await _ask(retries=5) == []


async def test_a_look_is_not() -> None:
    """It would come too late."""
    with pytest.raises(AzureError):
        await _ask(retries=0)


async def test_id_that_is_recorded_in_two_shards_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record would be, by itself."""
    end = {"ProcessState": "Processed", "FailureCount": 0, "Epoch": 1, "Direction": "do", "UpdatedAt": START}
    record = [
        {"RowKey": f"{ORDER}|task", **end},
        {"RowKey": f"{ORDER}|order", "Workflow": "orders", "WorkflowVersion": 1},
        {"RowKey": f"{ORDER}|step|00", "Name": "payment"},
        {"RowKey": "!done|x", "OrderID": ORDER},
    ]
    for shards, is_complete in ((["000"], True), (["000", "001"], False)):
        monkeypatch.setattr(Tables, "shards", AsyncMock(return_value=shards))
        monkeypatch.setattr(Tables, "_shard", AsyncMock(return_value=record))
        tables = Tables(MagicMock())
        assert (await tables.tasks())[ORDER].is_complete is is_complete
        assert (await tables.look_at_all())[ORDER].is_complete is is_complete
