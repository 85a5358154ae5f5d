"""The sample services: their resources, and the faults that tests set."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.services.resources import Resources
from functions.services.service import FAULTS_TABLE
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.integration.sample_services import (
    CONFIRMED,
    ORDER,
    PARCEL,
    SERVICES,
    SWITCH,
    Bench,
    TablesOf,
    make_tables,
    serve,
)

pytestmark = pytest.mark.process


UNDONE_AT = "2026-11-21T10:00:00.123456Z"


@pytest.fixture
async def client(service: TableServiceClient) -> AsgiClient:
    """Serve the sample services."""
    return await serve(service)


async def test_resource_is_made_once(client: AsgiClient) -> None:
    """201, then 204 for the same request, both without content; a GET returns what was confirmed."""
    answers = [await client.put(PARCEL, ORDER) for _ in range(3)]
    assert [(answer.status, answer.body) for answer in answers] == [(201, b""), (204, b""), (204, b"")]
    assert (await client.get(PARCEL)).json == ORDER | CONFIRMED | {"undone_at": None}


async def test_undone_resource_cannot_be_made_again(client: AsgiClient) -> None:
    """The tombstone refuses the late repeat; a GET still returns what was undone."""
    await client.put(PARCEL, ORDER)
    assert (await client.delete(PARCEL)).status == 204
    refusal = await client.put(PARCEL, ORDER)
    assert (refusal.status, refusal.headers["content-type"]) == (410, "application/problem+json")
    assert (await client.get(PARCEL)).json == ORDER | CONFIRMED | {"undone_at": UNDONE_AT}


async def test_resource_undone_before_it_was_made_is_never_made(client: AsgiClient) -> None:
    """The undo arrives before the do."""
    assert [(await client.delete(PARCEL)).status for _ in range(2)] == [204, 204]
    assert (await client.put(PARCEL, ORDER)).status == 410
    assert (await client.get(PARCEL)).json == {"undone_at": UNDONE_AT}


async def test_concurrent_puts_make_one(client: AsgiClient) -> None:
    """Only one of them makes it."""
    answers = await asyncio.gather(*(client.put(PARCEL, ORDER) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [201, 204, 204, 204, 204]


async def test_concurrent_undo_prevails(client: AsgiClient) -> None:
    """Whichever comes first, it is undone when both have ended, and stays undone."""
    for number in range(5):
        path = f"{PARCEL}-{number}"
        put, delete = await asyncio.gather(client.put(path, ORDER), client.delete(path))
        assert (put.status in {201, 410}, delete.status) == (True, 204)
        assert (await client.get(path)).json["undone_at"] == UNDONE_AT
        assert (await client.put(path, ORDER)).status == 410


async def test_undo_during_a_repeat_prevails(
    service: TableServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undone between the read and the replacement of its row, it keeps its tombstone."""
    table = (await make_tables(service))("Parcels")
    parcels = Resources(table, FakeClock().now)
    await parcels.put("task-1", {})
    read = table.get_entity

    async def read_then_undo(partition_key: str, row_key: str) -> Any:
        found = await read(partition_key, row_key)
        await parcels.delete("task-1")
        return found

    monkeypatch.setattr(table, "get_entity", read_then_undo)
    assert await parcels.put("task-1", {}) == 410


@pytest.fixture
async def tables(service: TableServiceClient) -> TablesOf:
    """Create the services' tables."""
    return await make_tables(service)


@pytest.fixture
def bench(tables: TablesOf) -> Bench:
    """Serve the services in one process."""
    return Bench(tables)


async def test_failing_calls_do_nothing_until_they_are_used_up(bench: Bench) -> None:
    """Then the switch is removed."""
    await bench.set({"kind": "fail", "times": 2})
    assert [await bench.put() for _ in range(3)] == [503, 503, 201]
    assert (await bench.client.get(f"{SERVICES}/faults")).json == []


async def test_fault_without_times_holds_until_it_is_ended(bench: Bench) -> None:
    """It can be ended twice."""
    await bench.set({"kind": "fail"})
    assert [await bench.put() for _ in range(3)] == [503] * 3
    assert [(await bench.client.delete(SWITCH)).status for _ in range(2)] == [204, 204]
    assert await bench.put() == 201


async def test_slow_call_does_nothing_while_it_is_held(bench: Bench) -> None:
    """Another caller finds nothing until then."""
    await bench.set({"kind": "slow", "times": 1, "seconds": 60})
    slow = asyncio.create_task(bench.put())
    while (await bench.client.get(f"{SERVICES}/faults")).json:
        assert not slow.done()
    assert await bench.get() == 404
    slow.cancel()
    await asyncio.wait([slow])


async def test_hanging_call_is_held_and_does_nothing(bench: Bench) -> None:
    """It ends with 504."""
    await bench.set({"kind": "hang", "times": 1, "seconds": 0.1})
    start = asyncio.get_running_loop().time()
    assert await bench.put() == 504
    assert asyncio.get_running_loop().time() - start >= 0.1
    assert await bench.get() == 404


async def test_lost_response_leaves_the_work_done(bench: Bench) -> None:
    """The caller cannot know; it retries, and finds the work done."""
    await bench.set({"kind": "lose-answer", "times": 1})
    assert [await bench.put(), await bench.put(), await bench.get()] == [504, 204, 200]


async def test_refusal_does_not_apply_to_the_undo(bench: Bench) -> None:
    """A refused effect can be compensated."""
    await bench.set({"kind": "refuse"})
    assert [await bench.put(), await bench.get(), await bench.delete()] == [422, 422, 204]


async def test_refusal_of_the_undo_applies_to_nothing_else(bench: Bench) -> None:
    """Other calls are not counted."""
    await bench.set({"kind": "refuse-undo", "times": 1})
    assert [await bench.put(), await bench.delete()] == [201, 422]
    assert [await bench.put(), await bench.delete()] == [204, 204]


async def test_fault_applies_only_to_its_resource(bench: Bench) -> None:
    """Not for another id, nor for the same id of another service."""
    await bench.set({"kind": "fail"})
    assert await bench.put(f"{SERVICES}/parcels/task-2") == 201
    assert (await bench.client.put(f"{SERVICES}/letters/task-1", ORDER)).status == 201


async def test_fault_of_all_applies_to_resources_without_their_own(bench: Bench) -> None:
    """An id's own fault takes precedence."""
    await bench.set({"kind": "fail"}, f"{SERVICES}/parcels/faults/*")
    await bench.set({"kind": "refuse"})
    assert [await bench.put(), await bench.put(f"{SERVICES}/parcels/task-2")] == [422, 503]


async def test_concurrent_calls_are_counted_exactly(tables: TablesOf) -> None:
    """Two processes share three faults: exactly three calls fail."""
    benches = (Bench(tables), Bench(tables))
    await benches[0].set({"kind": "fail", "times": 3})
    statuses = await asyncio.gather(*(bench.put() for bench in benches * 4))
    assert sorted(statuses) == [201] + [204] * 4 + [503] * 3


async def test_fault_set_through_another_process_applies_within_a_second(tables: TablesOf) -> None:
    """A process may cache for that long that there are no faults."""
    here, there = Bench(tables), Bench(tables)
    here.clock.advance(60)
    assert await here.put() == 201
    await there.set({"kind": "fail"})
    assert await here.put() == 204
    here.clock.advance(1)
    assert await here.put() == 503


async def test_service_without_faults_does_not_read_them(
    tables: TablesOf, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A normal call costs nothing extra."""
    assert await bench.put() == 201
    monkeypatch.setattr(tables(FAULTS_TABLE), "query_entities", None)
    assert await bench.put() == 204


async def test_faults_that_are_set_are_listed(bench: Bench) -> None:
    """`times` is the number of calls that it still affects."""
    await bench.set({"kind": "fail", "times": 2})
    await bench.set({"kind": "slow", "seconds": 1.5}, f"{SERVICES}/letters/faults/*")
    await bench.put()
    assert (await bench.client.get(f"{SERVICES}/faults")).json == [
        {"service": "letters", "id": "*", "kind": "slow", "times": None, "seconds": 1.5},
        {"service": "parcels", "id": "task-1", "kind": "fail", "times": 1, "seconds": 0},
    ]


@pytest.mark.parametrize(
    "fault",
    [
        {},
        {"kind": "explode"},
        {"kind": "fail", "times": 0},
        {"kind": "fail", "times": 1_001},
        {"kind": "slow"},
        {"kind": "hang", "seconds": 0},
        {"kind": "hang", "seconds": 121},
        {"kind": "fail", "until": "noon"},
    ],
)
async def test_fault_without_bounds_is_refused(fault: dict[str, object], bench: Bench) -> None:
    """No call is held forever."""
    assert (await bench.client.put(SWITCH, fault)).status == 422


@pytest.mark.parametrize(("switch", "status"), [("nothing/faults/task-1", 404), ("parcels/faults/a.b", 422)])
async def test_fault_of_an_unknown_service_is_refused(switch: str, status: int, bench: Bench) -> None:
    """The error names the services."""
    assert (await bench.client.put(f"{SERVICES}/{switch}", {"kind": "fail"})).status == status
    assert (await bench.client.delete(f"{SERVICES}/{switch}")).status == status
