"""The evidence is read in spite of connections that break."""

from __future__ import annotations

import pytest
from aiohttp import web
from azure.core.exceptions import AzureError

from tests.chaos.evidence.tables import Tables
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
        async with Tables.at([connection], retries=retries) as tables:
            return await tables.rejected()


async def test_evidence_is_read_again() -> None:
    """As often as it takes."""
    assert await _ask(retries=5) == []


async def test_a_look_is_not() -> None:
    """It would come too late."""
    with pytest.raises(AzureError):
        await _ask(retries=0)
