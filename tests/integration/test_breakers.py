"""Circuit breakers on the real table: instances share one state by compare-and-swap."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.data.tables.aio import TableClient

from functions.agents.breaker import Breaker, CircuitOpenError
from functions.pattern.breaker import BreakerPolicy, BreakerRecord, BreakerState
from functions.pattern.errors import TransientError
from functions.pattern.shared_rows import StoredBreaker
from functions.store.conditional_rows import ConditionalRows, TableBreakerRows
from tests.fakes.clock import START, FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.tasks import after
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process

POLICY = BreakerPolicy(failures=2, open_for=timedelta(seconds=10))
OPEN = BreakerRecord(
    service="drone",
    state=BreakerState.OPEN,
    since=START,
    failures=2,
    probe_at=after(10),
    last_error="drone answered 503",
)
CLOSED = BreakerRecord(service="package", state=BreakerState.CLOSED, since=after(20))
CLOSED_DRONE = replace(CLOSED, service="drone")


class Instance:
    """A process with a breaker, and a remote service that only it calls."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.clock: FakeClock = process.clock
        self.breaker = Breaker("drone", fake_ports(clock=process.clock, breakers=_rows(process)), POLICY)
        self.calls = 0
        self.service_fails = True

    async def call(self) -> str:
        """Call the service once, and return the result."""
        try:
            return await self.breaker.call(self._attempt)
        except CircuitOpenError:
            return "circuit open"
        except TransientError:
            return "failed"

    async def _attempt(self) -> str:
        self.calls += 1
        if self.service_fails:
            raise TransientError("drone answered 503")
        return "delivered"


class DeadTable:
    """A table that cannot be reached."""

    async def get_entity(self, *_: object, **__: object) -> Any:
        """Fail."""
        raise ServiceRequestError("no route to host")

    create_entity = update_entity = get_entity


class RepeatingTable:
    """A table to which each update is sent twice, as the SDK does when a response is lost."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def update_entity(self, row: Mapping[str, Any], **options: Any) -> Any:
        """Write, and write again."""
        await self._table.update_entity(row, **options)
        return await self._table.update_entity(row, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


@pytest.fixture
def instances(make_process: MakeProcess) -> list[Instance]:
    """Create two instances."""
    return [Instance(make_process()), Instance(make_process())]


def _rows(process: Process) -> TableBreakerRows:
    return TableBreakerRows(
        ConditionalRows(process.table, new_id=lambda: uuid.uuid4().hex, figures=process.figures)
    )


async def _call_all_after(instances: list[Instance], seconds: float) -> list[str]:
    """Advance the clocks, and call from all instances at once."""
    for instance in instances:
        instance.clock.advance(seconds)
    return sorted(await asyncio.gather(*(instance.call() for instance in instances)))


async def test_instances_share_the_state_of_the_circuit(instances: list[Instance]) -> None:
    """One opens the circuit for both; one probes, and it closes for both."""
    one, two = instances
    assert [await one.call() for _ in range(3)] == ["failed", "failed", "circuit open"]
    assert await two.call() == "circuit open"
    assert await _call_all_after(instances, 10) == ["circuit open", "failed"]
    assert one.calls + two.calls == 3
    one.service_fails = two.service_fails = False
    assert await _call_all_after([one], 10) == ["delivered"]
    assert await _call_all_after([two], 10) == ["delivered"]
    stored = await _rows(one.process).read("drone")
    assert stored is not None
    assert (stored.record.state, stored.record.since) == (BreakerState.CLOSED, after(20))


async def test_instances_that_open_at_once_agree(instances: list[Instance]) -> None:
    """Both create the row at the same moment; in each interval, one of two possible probes is sent."""
    assert await _call_all_after(instances, 0) == ["failed"] * 2
    assert await _call_all_after(instances, 0) == ["failed"] * 2
    for _ in range(5):
        assert await _call_all_after(instances, 10) == ["circuit open", "failed"]
    stored = await _rows(instances[0].process).read("drone")
    assert stored is not None
    assert (stored.record.since, stored.record.failures) == (START, 7)


async def test_new_instance_finds_an_open_circuit(
    instances: list[Instance], make_process: MakeProcess
) -> None:
    """On its first call."""
    assert [await instances[0].call() for _ in range(2)] == ["failed"] * 2
    new = Instance(make_process())
    assert (await new.call(), new.calls) == ("circuit open", 0)


async def test_traffic_costs_one_read_a_second(process: Process) -> None:
    """No matter how many calls there are."""
    instance = Instance(process)
    instance.service_fails = False
    for _ in range(3):
        assert await _call_all_after([instance] * 50, 1 / 50) == ["delivered"] * 50
    assert (process.figures.reads, process.figures.operations) == (3, 0)


async def test_record_is_read_as_it_was_written(process: Process) -> None:
    """One record with every field set, and one with few."""
    rows = _rows(process)
    for record in (OPEN, CLOSED):
        swap = await rows.swap(record, None)
        assert swap.won
        assert await rows.read(record.service) == swap.there
    assert swap.there is not None
    bare = await rows.swap(replace(CLOSED, failures=1), swap.there.version)
    assert await rows.read("package") == bare.there


async def test_row_that_has_changed_is_not_overwritten(process: Process) -> None:
    """It is neither created twice nor replaced from an old read; the current row is returned."""
    rows = _rows(process)
    first = (await rows.swap(OPEN, None)).there
    assert first is not None
    again = await rows.swap(OPEN, None)
    assert (again.won, again.there) == (False, first)
    second = (await rows.swap(OPEN, first.version)).there
    late = await rows.swap(OPEN, first.version)
    assert (late.won, late.there) == (False, second)
    assert isinstance(second, StoredBreaker)
    await process.table.delete_entity("!settings", "breaker|drone")
    gone = await rows.swap(OPEN, second.version)
    assert (gone.won, gone.there) == (False, None)


async def test_write_whose_response_was_lost_is_recognised_as_our_own(process: Process) -> None:
    """The SDK retries the write, which conflicts with itself."""
    table: Any = RepeatingTable(process.table)
    rows = TableBreakerRows(ConditionalRows(table, new_id=lambda: uuid.uuid4().hex, figures=process.figures))
    created = (await rows.swap(OPEN, None)).there
    assert created is not None
    repeated = await rows.swap(CLOSED_DRONE, created.version)
    assert repeated.won
    assert await rows.read("drone") == repeated.there


async def test_all_rows_are_read_in_one_request(process: Process) -> None:
    """Only breakers' rows, though the partition has others."""
    rows = _rows(process)
    assert await rows.every() == []
    await process.table.create_entity({"PartitionKey": "!settings", "RowKey": "shards", "Shards": 1})
    for record in (OPEN, CLOSED):
        await rows.swap(record, None)
    process.figures.reads = 0
    assert await rows.every() == [OPEN, CLOSED]
    assert process.figures.reads == 1


_NAIVE = b'[{"holder": "one", "places": 1, "wanted": 1, "in_flight": 0, "until": "2999-01-01T00:00:00"}]'


@pytest.mark.parametrize(
    "damage",
    [{"State": "ajar"}, {"Since": None}, {"Shares": _NAIVE}],
    ids=["state", "since", "time without a zone"],
)
async def test_damaged_row_fails_no_call(process: Process, damage: Mapping[str, Any]) -> None:
    """It counts as none, also where the calls are limited, and is replaced by the next write."""
    row = {"PartitionKey": "!settings", "RowKey": "breaker|drone", "Service": "drone", "Failures": 2}
    row |= {"State": "open", "Since": START, **damage}
    await process.table.create_entity({name: value for name, value in row.items() if value is not None})
    limited = Breaker("drone", fake_ports(clock=process.clock, breakers=_rows(process)), POLICY, at_once=1)
    assert await limited.places.take(10) is not None
    limited.places.stop()
    instance = Instance(process)
    assert [await instance.call() for _ in range(3)] == ["failed", "failed", "circuit open"]


async def test_failing_store_is_a_transient_fault(process: Process) -> None:
    """On every request."""
    table: Any = DeadTable()
    dead = TableBreakerRows(ConditionalRows(table, new_id=lambda: "", figures=process.figures))
    for request in (dead.read("drone"), dead.swap(OPEN, None), dead.swap(OPEN, "version")):
        with pytest.raises(TransientError, match="Table Storage: ServiceRequestError"):
            await request
    await process.table.delete_table()
    with pytest.raises(TransientError):
        await _rows(process).every()
