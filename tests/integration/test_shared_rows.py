"""Rows that all instances share: circuits, times, counts and the overview."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.data.tables.aio import TableClient

from functions.agents.breaker import Breaker, CircuitOpenError
from functions.operations.overview import OverviewReader
from functions.pattern.breaker import BreakerPolicy, BreakerRecord, BreakerState
from functions.pattern.definition import Registry
from functions.pattern.errors import TransientError
from functions.pattern.occurrences import TaskCounter
from functions.pattern.ports import QueueDepth
from functions.pattern.request_figures import StoreFigures
from functions.pattern.shared_rows import Occasion, StoredBreaker
from functions.store.conditional_rows import (
    ConditionalRows,
    TableBreakerRows,
    TableContent,
    TableHeartbeats,
    TableTimes,
)
from functions.store.indexes import TableTaskIndex
from functions.store.keys import ALERT_MINUTE, time_row
from functions.store.minute_counts import TableMinuteCounts
from tests.fakes.clock import START, FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.shards import shards_in
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


MINUTE = timedelta(minutes=1)


async def test_time_is_noted_once_in_a_while(make_process: MakeProcess) -> None:
    """By one of several instances; others, and other occasions, have times of their own."""
    instances = [
        TableTimes(ConditionalRows(process.table, new_id=lambda: uuid.uuid4().hex, figures=process.figures))
        for process in (make_process(), make_process())
    ]
    one, two = instances

    async def at_once(seconds: float) -> int:
        noted = (each.note(Occasion.REPLIED, "payment", after(seconds), MINUTE) for each in instances * 5)
        return sum(await asyncio.gather(*noted))

    assert [await at_once(0), await at_once(59), await at_once(60)] == [1, 0, 1]
    assert await one.note(Occasion.REPLIED, "drone", after(61), MINUTE)
    assert await two.note(Occasion.REFUSED, "payment|not JSON", after(61), MINUTE)
    assert await two.latest(Occasion.REPLIED) == {"payment": after(60), "drone": after(61)}


async def test_damaged_time_is_none_and_is_noted_anew(make_process: MakeProcess) -> None:
    """Else no reply of that Agent could be taken, and no late task be judged."""
    process = make_process()
    rows = ConditionalRows(process.table, new_id=lambda: uuid.uuid4().hex, figures=process.figures)
    times = TableTimes(rows)
    await rows.replace({"RowKey": time_row(Occasion.REPLIED, "payment"), "At": "yesterday"})
    assert await times.note(Occasion.REPLIED, "drone", after(0), MINUTE)
    assert await times.latest(Occasion.REPLIED) == {"drone": after(0)}
    assert await times.note(Occasion.REPLIED, "payment", after(1), MINUTE)
    assert await times.latest(Occasion.REPLIED) == {"drone": after(0), "payment": after(1)}


def _content(table: TableClient, figures: StoreFigures | None = None) -> TableContent:
    rows = ConditionalRows(table, new_id=lambda: uuid.uuid4().hex, figures=figures or StoreFigures())
    return TableContent(rows, ALERT_MINUTE)


def _one_more(content: bytes | None) -> tuple[bytes, int]:
    count = int(content or b"0") + 1
    return str(count).encode(), count


async def test_changes_of_several_instances_at_once_all_count(table: TableClient) -> None:
    """Each is made on what the one before has left."""
    instances = [_content(table) for _ in range(3)]
    assert await instances[0].read() is None
    counts = await asyncio.gather(*(each.change(_one_more) for each in instances for _ in range(8)))
    assert sorted(counts) == list(range(1, 25))
    assert await instances[1].read() == b"24"


async def test_changes_of_one_moment_are_written_together(table: TableClient) -> None:
    """So none waits long for the others."""
    figures = StoreFigures()
    content = _content(table, figures)
    counts = await asyncio.gather(*(content.change(_one_more) for _ in range(500)))
    assert (counts, figures.operations) == ([*range(1, 501)], 1)


_MINUTE = START.replace(second=0, microsecond=0)
_EARLIER = _MINUTE - timedelta(minutes=1)


@pytest.fixture
def rows(table: TableClient) -> TableMinuteCounts:
    """Keep counts in the test's table."""
    return TableMinuteCounts(table, StoreFigures())


async def test_rows_of_all_processes_are_added_up_by_minute(rows: TableMinuteCounts) -> None:
    """From a minute on; a row that is written again counts once."""
    for _ in range(2):
        await rows.write(_MINUTE, "one", {TaskCounter.ACCEPTED: 2, TaskCounter.PROCESSED: 1})
    await rows.write(_MINUTE, "two", {TaskCounter.ACCEPTED: 5})
    await rows.write(_EARLIER, "one", {TaskCounter.RECOVERED: 1})
    counts = await rows.since(_EARLIER)
    assert {minute: {each: n for each, n in found.items() if n} for minute, found in counts.items()} == {
        _MINUTE: {TaskCounter.ACCEPTED: 7, TaskCounter.PROCESSED: 1},
        _EARLIER: {TaskCounter.RECOVERED: 1},
    }
    assert [*await rows.since(_MINUTE)] == [_MINUTE]


async def test_corrupt_row_hides_no_other(
    rows: TableMinuteCounts, table: TableClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged by its key."""
    await rows.write(_MINUTE, "one", {TaskCounter.ACCEPTED: 2})
    await table.create_entity({"PartitionKey": "!minutes", "RowKey": "2999|corrupt", "Accepted": "many"})
    counts = await rows.since(_MINUTE)
    assert {minute: found[TaskCounter.ACCEPTED] for minute, found in counts.items()} == {_MINUTE: 2}
    assert "2999|corrupt" in caplog.text


async def test_rows_of_earlier_minutes_are_deleted(rows: TableMinuteCounts, table: TableClient) -> None:
    """At most as many at once as the caller says, and no row of a task."""
    await table.create_entity({"PartitionKey": "000", "RowKey": "0|task"})
    for name in ("one", "two", "three"):
        await rows.write(_EARLIER, name, {TaskCounter.ACCEPTED: 1})
    await rows.write(_MINUTE, "one", {TaskCounter.ACCEPTED: 1})
    assert [await rows.delete_before(_MINUTE, 2) for _ in range(3)] == [2, 1, 0]
    assert [*await rows.since(_EARLIER)] == [_MINUTE]
    assert (await table.get_entity("000", "0|task"))["RowKey"] == "0|task"


SHARDS = 16


class NoQueues:
    """Service Bus is not counted here."""

    async def depths(self) -> Sequence[QueueDepth]:
        """See nothing."""
        return []


async def test_overview_takes_few_reads(table: TableClient) -> None:
    """Three for each shard, and seven for rows that all instances share."""
    figures, clock = StoreFigures(), FakeClock()
    rows = ConditionalRows(table, new_id=str, figures=figures)
    counts = TableMinuteCounts(table, figures)
    ports = fake_ports(
        index=TableTaskIndex(shards_in(table, shards=SHARDS), figures),
        heartbeats=TableHeartbeats(rows),
        breakers=TableBreakerRows(rows),
        minute_counts=counts,
        queues=NoQueues(),
        clock=clock,
    )
    await counts.write(clock.now() - timedelta(minutes=1), "one", {TaskCounter.PROCESSED: 3})
    overview = await OverviewReader(ports, Registry((), {})).read()
    assert figures.reads == 3 * SHARDS + 7
    assert overview.last_hour[-1].processed == 3
