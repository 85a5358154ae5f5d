"""The sample services: their names, their resources, and the faults that are set on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from pydantic import BaseModel

from functions.core.definition.definition_checks import DefinitionError
from functions.services.service import FAULTS_TABLE, SampleService
from functions.storage.table_contract import RowChange
from tests.unit.api.scene import problem
from tests.unit.services.scene import CONFIRMED, ORDER, PARCEL, SERVICES, SWITCH, Bench

UNDONE_AT = "2026-11-21T10:00:00.123456Z"


@pytest.fixture
def bench() -> Bench:
    """Serve the services in one process."""
    return Bench()


@pytest.mark.parametrize("name", ["loyalty-points", "tasks", "rejected", "faults", "Points", "p2", ""])
def test_name_that_its_table_cannot_have_is_refused(name: str) -> None:
    """The error names the service and the rule. Two services never share a table."""
    with pytest.raises(DefinitionError, match=f"sample service '{name}': its name must be"):
        SampleService(name, BaseModel)
    assert SampleService("parcels", BaseModel).table == "Parcels"


@pytest.mark.parametrize("path", [PARCEL, SWITCH])
@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b" " * (64 * 1024 + 1), "application/json", 413),
        (b"[" * 17 + b"]" * 17, "application/json", 400),
        (b'{"kind": "slow", "seconds": "1_0"}', "application/json", 422),
        (b"{}", "text/plain", 415),
    ],
    ids=["long", "deep", "number", "text"],
)
async def test_bodies_have_limits(
    bench: Bench, path: str, body: bytes, content_type: str, status: int
) -> None:
    """With a problem document."""
    problem(await bench.client.send("PUT", path, body, content_type=content_type), status)


async def test_resource_is_made_once(bench: Bench) -> None:
    """201, then 204 for the same request, both without content; a GET returns what was confirmed."""
    answers = [await bench.client.put(PARCEL, ORDER) for _ in range(3)]
    assert [(answer.status, answer.body) for answer in answers] == [(201, b""), (204, b""), (204, b"")]
    assert await bench.show() == ORDER | CONFIRMED | {"undone_at": None}


@pytest.mark.parametrize("made", [{}, ORDER | CONFIRMED], ids=["before it was made", "afterwards"])
async def test_undone_resource_cannot_be_made_again(bench: Bench, made: dict[str, object]) -> None:
    """The tombstone refuses a late request; a GET still returns what was undone."""
    if made:
        await bench.call("PUT")
    assert [await bench.call("DELETE") for _ in range(2)] == [204, 204]
    problem(await bench.client.put(PARCEL, ORDER), 410)
    assert await bench.show() == made | {"undone_at": UNDONE_AT}


async def test_concurrent_puts_make_one(bench: Bench) -> None:
    """Only one of them makes it."""
    assert sorted(await asyncio.gather(*(bench.call("PUT") for _ in range(5)))) == [201, 204, 204, 204, 204]


@pytest.mark.parametrize("kind", ["insert", "update"])
async def test_concurrent_undo_prevails(bench: Bench, kind: str) -> None:
    """Also between the read and the replacement of its row."""
    table = bench.tables["Parcels"]

    def undo_first(changes: Sequence[RowChange]) -> None:
        if changes[0].kind == kind:
            table.write("task-1", [RowChange("merge", "task-1", {"UndoneAt": UNDONE_AT, "ChangedAt": ""})])

    if kind == "update":
        await bench.call("PUT")
    table.before_send = undo_first
    assert await bench.call("PUT") == 410
    assert (await bench.show())["undone_at"] == UNDONE_AT


# Faults


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ({"kind": "fail", "times": 2}, ["PUT 503", "PUT 503", "PUT 201"]),
        ({"kind": "fail"}, ["PUT 503", "GET 503", "DELETE 503", "PUT 503"]),
        ({"kind": "hang", "seconds": 9, "times": 1}, ["PUT 504", "GET 404"]),
        ({"kind": "lose-answer", "times": 1}, ["PUT 504", "PUT 204", "GET 200"]),
        ({"kind": "refuse"}, ["PUT 422", "GET 422", "DELETE 204"]),
        ({"kind": "refuse-undo", "times": 1}, ["PUT 201", "DELETE 422", "PUT 204", "DELETE 204"]),
    ],
    ids=str,
)
async def test_fault_applies_to_its_calls(bench: Bench, fault: dict[str, object], calls: list[str]) -> None:
    """Until they are used up, or it is ended; only a lost answer leaves the work done."""
    await bench.set(fault)
    began = asyncio.get_running_loop().time()
    methods = [call.partition(" ")[0] for call in calls]
    assert [f"{method} {await bench.call(method)}" for method in methods] == calls
    assert (asyncio.get_running_loop().time() >= began + 9) is ("seconds" in fault)
    assert bool(await bench.show(f"{SERVICES}/faults")) is ("times" not in fault)
    assert [(await bench.client.delete(SWITCH)).status for _ in range(2)] == [204, 204]
    assert await bench.call("GET", f"{PARCEL}-other") == 404


async def test_slow_call_does_nothing_while_it_is_held(bench: Bench) -> None:
    """Another caller finds nothing until then."""
    await bench.set({"kind": "slow", "times": 1, "seconds": 60})
    slow = asyncio.create_task(bench.call("PUT"))
    await asyncio.sleep(59)
    assert await bench.call("GET") == 404
    assert await slow == 201


async def test_fault_applies_only_to_its_resource(bench: Bench) -> None:
    """Not for another id, nor for the same id of another service. That of all is for the ids without one."""
    await bench.set({"kind": "fail"})
    parcel, letter = f"{SERVICES}/parcels/task-2", f"{SERVICES}/letters/task-1"
    assert [await bench.call("PUT", path) for path in (PARCEL, parcel, letter)] == [503, 201, 201]
    await bench.set({"kind": "refuse"}, f"{SERVICES}/parcels/faults/*")
    assert [await bench.call("PUT", path) for path in (PARCEL, parcel, letter)] == [503, 422, 204]


async def test_concurrent_calls_are_counted_exactly(bench: Bench) -> None:
    """Two processes share three faults: exactly three calls fail."""
    benches = (bench, Bench(other=bench))
    await bench.set({"kind": "fail", "times": 3})
    statuses = await asyncio.gather(*(each.call("PUT") for each in benches * 4))
    assert sorted(statuses) == [201] + [204] * 4 + [503] * 3


async def test_fault_set_through_another_process_applies_within_a_second(bench: Bench) -> None:
    """A process may cache for that long that there are no faults: a normal call costs nothing extra."""
    there, faults = Bench(other=bench), bench.tables[FAULTS_TABLE]
    bench.clock.advance(60)
    assert await bench.call("PUT") == 201
    await there.set({"kind": "fail"})
    reads = faults.reads
    assert (await bench.call("PUT"), faults.reads) == (204, reads)
    bench.clock.advance(1)
    assert await bench.call("PUT") == 503


async def test_faults_that_are_set_are_listed(bench: Bench) -> None:
    """`times` is the number of calls that it still affects."""
    await bench.set({"kind": "fail", "times": 2})
    await bench.set({"kind": "slow", "seconds": 1.5}, f"{SERVICES}/letters/faults/*")
    await bench.call("PUT")
    assert await bench.show(f"{SERVICES}/faults") == [
        {"service": "parcels", "id": "task-1", "kind": "fail", "times": 1, "seconds": 0},
        {"service": "letters", "id": "*", "kind": "slow", "times": None, "seconds": 1.5},
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
    problem(await bench.client.put(SWITCH, fault), 422)


@pytest.mark.parametrize(("switch", "status"), [("nothing/faults/task-1", 404), ("parcels/faults/a.b", 422)])
async def test_fault_of_an_unknown_service_is_refused(switch: str, status: int, bench: Bench) -> None:
    """The error names the services."""
    problem(await bench.client.put(f"{SERVICES}/{switch}", {"kind": "fail"}), status)
    problem(await bench.client.delete(f"{SERVICES}/{switch}"), status)
