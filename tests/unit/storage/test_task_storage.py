"""Changes of tasks: one transaction for events of the same moment, conflicts, lost answers, deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from functions.core.derive import ProcessState, derive
from functions.core.record import OperationState, StepSpec, StepType, TaskRecord
from functions.core.rules import Applied, admit
from functions.core.task_events import Due, Event, EventReceived, Rejection, RunStarted, Suspended
from functions.storage import task_inbox
from functions.storage.row_keys import message_key
from functions.storage.table_contract import (
    CorruptRowError,
    NoSuchTaskError,
    TransientStorageError,
    UnwritableRowsError,
)
from tests.fakes.simulated_table import SimulatedTable, TableFault
from tests.fakes.storage_process import StorageProcess, line, order, virtual_now
from tests.unit.storage.virtual import virtual

EVENTS = tuple(StepSpec(name=f"e{n}", type=StepType.EVENT, complete_within=600) for n in range(3))
SUSPEND = Suspended(reason="wait", by_operator=True)


def received(name: str, body: str = "{}") -> EventReceived:
    """Return the event of a step."""
    return EventReceived(step=name, body=body, who="me")


async def admitted(**table: Any) -> tuple[SimulatedTable, StorageProcess]:
    """Return a table and a process that admitted the task `t1`, which waits for three events."""
    process = StorageProcess(made := SimulatedTable(**table))
    await process.admit("t1", *EVENTS)
    return made, process


@virtual
async def test_five_step_order_takes_seven_transactions_and_22_rows_and_no_read() -> None:
    """The cost of an order that is alone, without notices."""
    table = SimulatedTable()
    process = StorageProcess(table)
    await process.admit("t1")
    record = await process.process("t1")
    assert derive(record).state is ProcessState.PROCESSED
    assert (len(table.transactions), table.reads) == (7, 0)
    assert sum(map(len, table.transactions)) <= 22
    assert await StorageProcess(table).storage.load("t1") == record


@virtual
async def test_events_of_one_moment_are_one_transaction() -> None:
    """Each caller receives its own result, and one of them announces the change."""
    table, process = await admitted(seconds=0.01)
    table.transactions.clear()
    process.announced.clear()
    applied = await asyncio.gather(*(process.change("t1", received(f"e{n}", f'"{n}"')) for n in range(3)))
    assert len(table.transactions) == 1
    assert len(process.announced) == 1
    assert [each.record.step(f"e{n}").event for n, each in enumerate(applied)] == ['"0"', '"1"', '"2"']


@virtual
async def test_conflicting_process_loses_no_event() -> None:
    """Two processes with outdated records both record their events."""
    table, one = await admitted()
    other = StorageProcess(table)
    await other.storage.cached("t1")
    await asyncio.gather(
        one.change("t1", received("e0")), other.change("t1", received("e1")), one.change("t1", received("e2"))
    )
    record = await one.storage.load("t1")
    assert record is not None
    assert [record.step(spec.name).event for spec in EVENTS] == ["{}"] * 3


@pytest.mark.parametrize("fault", TableFault)
@virtual
async def test_lost_answer_applies_an_event_once(fault: TableFault) -> None:
    """The id of the write in the task row tells whether it was written, also after a late write."""
    table, process = await admitted()
    table.fail_next(fault)
    applied = await process.change("t1", received("e0"))
    assert applied.rejection is None
    await asyncio.sleep(60)
    later = await process.change("t1", received("e1"))
    assert (later.rejection, later.record.step("e0").event) == (None, "{}")
    again = await process.change("t1", received("e0", '"another"'))
    assert (again.rejection, len(process.announced)) == (Rejection.NOT_OPEN, 3)


@pytest.mark.parametrize("fault", TableFault)
@virtual
async def test_lost_answer_admits_a_task_once(fault: TableFault) -> None:
    """A caller that was not sure repeats the admission, and finds the task."""
    table = SimulatedTable()
    process = StorageProcess(table)
    record = admit(order("t1"), virtual_now(), process.settings)
    table.fail_next(fault)
    try:
        admitted, _ = await process.storage.admit(record)
    except TransientStorageError:
        await asyncio.sleep(60)
        admitted, _ = await process.storage.admit(record)
    assert admitted == record
    assert len(table.keys("t1|")) == 2
    keys = [{change.key for change in changes} for changes in table.transactions]
    assert all({"t1|order", "t1|task"} <= each for each in keys)
    assert await process.storage.admit(record) == (record, False)


@virtual
async def test_step_has_a_row_from_its_first_start_or_event() -> None:
    """The order's row has the specs of all steps."""
    table = SimulatedTable()
    process = StorageProcess(table)
    event = StepSpec(name="e", type=StepType.EVENT, needs=frozenset({"s1"}), complete_within=600)
    await process.admit("t1", *line(2), event)
    assert (table.keys("t1|step|"), len(table.keys("t1|"))) == ([], 2)
    await process.start("t1")
    assert table.keys("t1|step|") == ["t1|step|s0"]
    await process.change("t1", received("e"))
    assert table.keys("t1|step|") == ["t1|step|e", "t1|step|s0"]


@virtual
async def test_event_ends_at_its_deadline() -> None:
    """A caller learns in time that its event is not recorded, and the event is not recorded later."""
    table, process = await admitted()
    table.fault = lambda: TableFault.NOT_SENT
    began = virtual_now()
    with pytest.raises(TransientStorageError, match="deadline"):
        await process.change("t1", received("e0"), seconds=3)
    assert (virtual_now() - began).total_seconds() == pytest.approx(3, abs=0.1)
    table.fail_next()
    await asyncio.sleep(5)
    applied = await process.change("t1", received("e1"))
    assert applied.record.step("e0").event is None


@virtual
async def test_run_receives_its_recorded_starts_after_the_deadline() -> None:
    """A start that is on record is the caller's to carry out."""
    table = SimulatedTable(seconds=4)
    process = StorageProcess(table)
    await process.admit("t1")
    applied = await process.change("t1", RunStarted(epoch=1, run=1), plan=process.plan(), seconds=3)
    assert applied.record.do("s0").state is OperationState.RUNNING


@virtual
async def test_nothing_changes_only_for_the_newest_record() -> None:
    """A rejection is based on a record that was read after the event arrived."""
    table, one = await admitted()
    other = StorageProcess(table)
    await other.change("t1", SUSPEND)
    table.reads = 0
    applied = await one.change("t1", SUSPEND)
    assert applied.record.suspension is not None
    assert table.reads >= 1


@virtual
async def test_record_of_several_pages_is_read_as_of_one_moment() -> None:
    """A change between two pages is noticed by the ETag of the task row."""
    table, process = await admitted(page=2)
    for spec in EVENTS:
        await process.change("t1", received(spec.name))
    number = 0

    def change_between_pages() -> None:
        nonlocal number
        number += 1
        if number in {2, 4}:
            for spec in EVENTS:
                table.rows["000", f"t1|step|{spec.name}"]["Event"] = f'"{number}"'
            table.rows["000", "t1|task"]["odata.etag"] = f"changed{number}"

    table.before_read = change_between_pages
    read = await StorageProcess(table).storage.load("t1")
    assert read is not None
    assert {read.step(spec.name).event for spec in EVENTS} == {'"4"'}

    def change_always() -> None:
        table.rows["000", "t1|task"]["odata.etag"] += "x"

    table.before_read = change_always
    with pytest.raises(TransientStorageError, match="10 reads"):
        await StorageProcess(table).storage.load("t1")

    is_deleted = iter([False, True])

    def delete_after_a_page() -> None:
        for key in table.keys("t1|") if next(is_deleted, False) else ():
            del table.rows["000", key]

    table.before_read = delete_after_a_page
    assert await StorageProcess(table).storage.load("t1") is None


@virtual
async def test_unknown_task_is_named() -> None:
    """An event of a task that was never admitted, or was deleted."""
    process = StorageProcess(SimulatedTable())
    with pytest.raises(NoSuchTaskError, match="t9"):
        await process.change("t9", Due())
    assert await process.storage.load("t9") is None
    assert await process.storage.cached("t9") is None


@pytest.mark.parametrize("page", [1000, 2])
@pytest.mark.parametrize("is_missing", [False, True])
@virtual
async def test_corrupt_record_fails_its_own_task_only(page: int, *, is_missing: bool) -> None:
    """The error names the row."""
    table, process = await admitted(page=page)
    await process.admit("t2", *EVENTS)
    table.rows["000", "t1|task"]["Facts"] = "{"
    if is_missing:
        del table.rows["000", "t1|task"]
    fresh = StorageProcess(table)
    results = await asyncio.gather(
        *(fresh.change(task, received("e0")) for task in ("t1", "t2")), return_exceptions=True
    )
    assert isinstance(results[0], CorruptRowError)
    assert results[0].row_key == "t1|task"
    assert not isinstance(results[1], BaseException)


@pytest.mark.parametrize(("seconds", "last"), [(20, "{}"), (8, None)])
@virtual
async def test_event_that_cannot_be_written_fails_alone(seconds: float, last: str | None) -> None:
    """Other events of the same moment are recorded, or end when the event before them is written too late."""
    _, process = await admitted(seconds=1)
    too_large = '"' + "x" * 600_000 + '"'
    async with asyncio.timeout(20):
        results = await asyncio.gather(
            process.change("t1", received("e1", too_large)),
            process.change("t1", received("e0")),
            process.change("t1", None, plan=lambda *_: [received("e2")], seconds=seconds),
            return_exceptions=True,
        )
    assert isinstance(results[0], UnwritableRowsError)
    record = await process.storage.load("t1")
    assert record is not None
    assert [record.step(spec.name).event for spec in EVENTS] == ["{}", None, last]


@virtual
async def test_text_that_is_not_unicode_concerns_its_own_task() -> None:
    """Table Storage cannot hold half of a character."""
    table = SimulatedTable()
    process = StorageProcess(table)
    broken = admit(order("t1", payload='"\ud800"'), virtual_now(), process.settings)
    results = await asyncio.gather(
        process.storage.admit(broken), process.admit("t2", *EVENTS), return_exceptions=True
    )
    assert isinstance(results[0], UnwritableRowsError)
    assert isinstance(results[1], TaskRecord)
    changed = await asyncio.gather(
        process.change("t2", received("e0", '"\ud800"')),
        process.change("t2", received("e1")),
        return_exceptions=True,
    )
    assert [type(each) for each in changed] == [UnwritableRowsError, Applied]


@virtual
async def test_defect_ends_the_events_that_wait() -> None:
    """No caller waits forever, and the next event is tried again."""
    table, _ = await admitted()
    fresh = StorageProcess(table)

    def defect() -> None:
        raise KeyError("defect")

    table.before_read = defect
    with pytest.raises(KeyError):
        await fresh.change("t1", received("e0"))
    table.before_read = lambda: None
    assert (await fresh.change("t1", received("e0"))).rejection is None


@virtual
async def test_cached_record_saves_a_read() -> None:
    """A task that is unknown to the process is read once."""
    table = SimulatedTable()
    process = StorageProcess(table)
    record = await process.admit("t1", *EVENTS)
    assert await process.storage.cached("t1") is record
    fresh = StorageProcess(table)
    assert await fresh.storage.cached("t1") == await fresh.storage.cached("t1") == record
    assert table.reads == 1


@virtual
async def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the number of records, and by their texts."""
    process = StorageProcess(SimulatedTable())
    monkeypatch.setattr(task_inbox, "_MOST_RECORDS", 2)
    monkeypatch.setattr(task_inbox, "_MOST_CACHED_BYTES", 1000)
    cache = process.storage._cache
    for task in ("t1", "t2", "t3"):
        await process.admit(task)
    assert [cache.find(task) is not None for task in ("t1", "t2", "t3")] == [False, True, True]
    await process.admit("t4", payload='"' + "x" * 999 + '"')
    assert [cache.find(task) is not None for task in ("t2", "t3", "t4")] == [False, False, False]
    assert cache._bytes == 0


@virtual
async def test_event_whose_rule_fails_fails_alone() -> None:
    """An error of one event's plan is raised at its caller."""
    _, process = await admitted(seconds=0.01)

    def broken(_record: TaskRecord, _now: Any) -> list[Event]:
        raise KeyError("defect")

    results = await asyncio.gather(
        process.change("t1", received("e0")),
        process.change("t1", None, plan=broken),
        process.change("t1", received("e1")),
        return_exceptions=True,
    )
    assert isinstance(results[1], KeyError)
    assert [isinstance(each, BaseException) for each in results] == [False, True, False]


@virtual
async def test_plan_that_does_not_fit_is_written_in_parts() -> None:
    """A run with many large requests starts a part of its steps, and the others stay ready."""
    table = SimulatedTable()
    process = StorageProcess(table)
    specs = tuple(StepSpec(name=f"q{n}", type=StepType.QUEUE, agent="a") for n in range(90))
    await process.admit("t1", *specs)
    request = '{"text":"' + "ü" * 29_000 + '"}'
    plan = process.plan(request)
    record = (await process.change("t1", RunStarted(epoch=1, run=1), plan=plan)).record
    started = [step.name for step in record.steps.values()]
    assert 10 <= len(started) < 90
    assert derive(record).due_at is not None
    while len(started) < 90:
        record = (await process.change("t1", None, plan=plan)).record
        started = [step.name for step in record.steps.values()]
    assert await StorageProcess(table).storage.load("t1") == record


@virtual
async def test_missing_index_row_stops_no_change() -> None:
    """A row that is to be deleted and does not exist is left out, named by the service or not."""
    for names_rows in (True, False):
        table = SimulatedTable(names_rows=names_rows)
        process = StorageProcess(table)
        await process.admit("t1")
        [index] = table.keys("!due|")
        del table.rows["000", index]
        record = await process.process("t1")
        assert derive(record).state is ProcessState.PROCESSED
        assert len(table.keys("!done|")) == 1


@virtual
async def test_index_row_moves_when_the_sweep_finds_it_too_early() -> None:
    """A quick task never moves its index row."""
    table = SimulatedTable()
    process = StorageProcess(table)
    await process.admit("t1", replace(line(1)[0], complete_within=600))
    before = table.keys("!due|")
    record = await process.start("t1")
    assert table.keys("!due|") == before
    due_at = derive(record).due_at
    for _ in range(2):
        stored = await process.storage.read("t1")
        assert stored is not None
        await process.storage.move_index(stored)
        assert table.keys("!due|") == [f"!due|{due_at:%Y%m%dT%H%M%S.%f}Z|t1"]
    await process.end(record, "s0")
    assert table.keys("!due|") == []


@virtual
async def test_sent_messages_are_deleted_in_one_transaction() -> None:
    """A message that another process deleted already does not keep the others."""
    table = SimulatedTable()
    process = StorageProcess(table)
    await process.admit("t1", *EVENTS, reply_to="replies/one")
    await process.change("t1", SUSPEND)
    messages = [each for announced in process.announced for each in announced.after.outbox]
    assert table.keys("!send|") == sorted(map(message_key, messages))
    assert table.keys("!send|replies:one|")
    assert message_key(replace(messages[0], id="t1.r.1.start child.w/1")).endswith("|t1.r.1.start child.w:1")
    table.fail_next(TableFault.NOT_SENT)
    await process.storage.forget(messages)
    assert len(table.keys("!send|")) == len(messages)
    await process.storage.forget(messages[:1])
    await process.storage.forget(messages)
    assert table.keys("!send|") == []


@virtual
async def test_cancelled_caller_stops_no_other() -> None:
    """The event of a caller that was cancelled may be recorded."""
    _, process = await admitted(seconds=1)
    first = asyncio.create_task(process.change("t1", received("e0")))
    second = asyncio.create_task(process.change("t1", received("e1")))
    await asyncio.sleep(0.1)
    first.cancel()
    assert (await second).record.step("e1").event == "{}"
    assert len(process.announced) == 2


@pytest.mark.parametrize("seed", range(30))
@virtual
async def test_random_faults_lose_and_repeat_nothing(seed: int) -> None:
    """Two processes process tasks on a table with faults; each step is done once, in order."""
    random = Random(seed)  # noqa: S311 - it is repeatable
    table = SimulatedTable(page=random.choice([2, 1000]), names_rows=seed % 3 > 0)
    faults = [*TableFault, *[None] * random.choice([5, 20, 60])]
    table.fault = lambda: random.choice(faults)
    table.read_fault = lambda: random.random() < 0.1
    table.late_by = random.uniform(0.001, 3)
    processes = [StorageProcess(table), StorageProcess(table)]
    records = {f"t{n}": admit(order(f"t{n}"), virtual_now(), processes[0].settings) for n in range(6)}

    async def repeated[ResultT](attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        while True:
            try:
                return await attempt()
            except TransientStorageError:
                await asyncio.sleep(1)

    async def process_task(task: str) -> None:
        host = random.choice(processes)
        await repeated(partial(host.storage.admit, records[task]))
        await repeated(partial(host.start, task))
        for number in range(5):
            host = random.choice(processes)
            record = await repeated(partial(host.storage.load, task))
            assert record is not None
            assert record.do(f"s{number}").state is OperationState.RUNNING
            await repeated(partial(host.end, record, f"s{number}", f'"{number}"'))

    await asyncio.gather(*map(process_task, records))
    await asyncio.sleep(60)
    for task in records:
        record = await repeated(partial(processes[0].storage.load, task))
        assert record is not None
        assert derive(record).state is ProcessState.PROCESSED
        assert [step.do.result for step in record.steps.values()] == [f'"{n}"' for n in range(5)]
        assert [step.do.number for step in record.steps.values()] == [1, 2, 3, 4, 5]
        written = [t.after for p in processes for t in p.announced if t.after.order.task == task]
        assert len({id(each) for each in written}) == len(written) <= 7
    assert len(table.keys("!done|")) == len(records)
    assert table.keys("!due|") == []
