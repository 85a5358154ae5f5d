"""The Agents' own table: of two deliveries one begins a request, and its reply is kept for both."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.data.tables.aio import TableClient

from functions.pattern.agent_messages import AgentReply, AgentRequest, done, not_taken
from functions.pattern.agent_requests import Begun
from functions.pattern.errors import TransientError
from functions.store.agent_requests import TableAgentRequests
from tests.fakes.clock import START, FakeClock
from tests.unit.agents.conftest import REQUEST

pytestmark = pytest.mark.process

#: As another team's Scheduler might choose its token: no key of a table could hold it.
ODD_TOKEN = "a/b\\c#d?e\n %00 Ä…€"


@pytest.fixture
def rows(table: TableClient) -> TableAgentRequests:
    """Create the Agents' rows in the test's table."""
    return TableAgentRequests(table, clock=FakeClock())


def _request(token: str = ODD_TOKEN, **changes: Any) -> AgentRequest:
    return AgentRequest.model_validate(REQUEST | {"idempotent": False, "token": token, **changes})


def _reply(request: AgentRequest, amount: int = 10) -> AgentReply:
    return done(request, {"receipt": "Ä" * amount})


async def test_of_deliveries_at_once_one_begins_it(rows: TableAgentRequests) -> None:
    """The others find it begun, also later."""
    begun = await asyncio.gather(*(rows.begin(_request(), f"delivery-{n}") for n in range(5)))
    assert sorted(each.by_us for each in begun) == [False] * 4 + [True]
    assert await rows.begin(_request(), "delivery-9") == Begun(by_us=False)
    assert await rows.find(_request()) == Begun(by_us=False)
    assert await rows.find(_request("another-token-of-16")) is None


async def test_reply_is_kept_as_it_was_sent(rows: TableAgentRequests, table: TableClient) -> None:
    """As large as a result may be; without the token, which is a secret."""
    request = _request()
    await rows.begin(request, "delivery-1")
    reply = _reply(request, 12 * 1024)
    await rows.replied(request, reply)
    assert await rows.begin(request, "delivery-2") == Begun(by_us=False, reply=reply)
    assert await rows.find(request) == Begun(by_us=False, reply=reply)
    [row] = [row async for row in table.list_entities()]
    assert not [name for name, value in row.items() if ODD_TOKEN[:3] in str(value)]
    assert (row["Task"], row["Step"], row["Epoch"]) == ("task-1", "payment", 2)


async def test_request_that_was_not_taken_is_begun_by_none(rows: TableAgentRequests) -> None:
    """One write says so; what was begun before stays so."""
    late = not_taken(_request())
    assert await rows.begin(_request(), "delivery-1", late) == Begun(by_us=True, reply=late)
    assert await rows.begin(_request(), "delivery-1", late) == Begun(by_us=True, reply=late)
    assert await rows.begin(_request(), "delivery-2") == Begun(by_us=False, reply=late)
    begun = _request("another-token-of-16")
    await rows.begin(begun, "delivery-1")
    assert await rows.begin(begun, "delivery-2", not_taken(begun)) == Begun(by_us=False)


class _LossyTable:
    """A table that writes a row while its answer is lost; then the SDK repeats the write, or gives up."""

    def __init__(self, table: TableClient, *, repeats: bool) -> None:
        self._table = table
        self._repeats = repeats

    async def create_entity(self, row: Any) -> Any:
        """Write it."""
        await self._table.create_entity(row)
        if self._repeats:
            return await self._table.create_entity(row)
        self._repeats = True
        raise ServiceResponseError("no answer")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


async def test_start_whose_answer_was_lost_is_our_own(table: TableClient) -> None:
    """Otherwise a request would never be carried out, and nobody would know."""
    lossy: Any = _LossyTable(table, repeats=True)
    rows = TableAgentRequests(lossy, clock=FakeClock())
    assert await rows.begin(_request(), "delivery-1") == Begun(by_us=True)
    given_up: Any = _LossyTable(table, repeats=False)
    rows = TableAgentRequests(given_up, clock=FakeClock())
    request = _request("another-token-of-16")
    with pytest.raises(TransientError):
        await rows.begin(request, "delivery-1")
    assert await rows.begin(request, "delivery-1") == Begun(by_us=True)
    assert await rows.begin(request, "delivery-2") == Begun(by_us=False)


async def test_requests_are_deleted_by_age(rows: TableAgentRequests) -> None:
    """By their complete-by, up to a limit; each run deletes more of them."""
    old = [_request(f"token-{number:02}-of-a-request") for number in range(25)]
    young = _request(complete_by=(START + timedelta(days=2)).isoformat())
    for request in [*old, young]:
        await rows.begin(request, "delivery-1")
    before = START + timedelta(days=1)
    assert [await rows.delete_before(before, 22) for _ in range(3)] == [22, 3, 0]
    assert await rows.find(young) is not None


@pytest.mark.parametrize("damage", [{"Reply": b"{"}, {"Reply": b"[]"}, {"Reply": b'{"outcome":"maybe"}'}])
async def test_damaged_row_is_no_reply(
    rows: TableAgentRequests, table: TableClient, damage: dict[str, Any]
) -> None:
    """It is not taken for "not begun" either."""
    await rows.begin(_request(), "delivery-1")
    [row] = [row async for row in table.list_entities()]
    await table.update_entity({**row, **damage})
    with pytest.raises(TransientError, match=r"AgentRequests: row [0-9a-f]{64} can't be read"):
        await rows.begin(_request(), "delivery-2")


async def test_failing_store_is_a_transient_fault() -> None:
    """On every request."""

    class DeadTable:
        async def create_entity(self, *_: object, **__: object) -> Any:
            raise ServiceRequestError("no route to host")

        get_entity = update_entity = create_entity

    dead: Any = DeadTable()
    rows = TableAgentRequests(dead, clock=FakeClock())
    request = _request()
    for asked in (rows.begin(request, "d"), rows.find(request), rows.replied(request, _reply(request))):
        with pytest.raises(TransientError):
            await asked
