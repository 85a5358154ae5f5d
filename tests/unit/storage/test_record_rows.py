"""Rows of records: nothing is lost, corrupt rows are named, and differences are small."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.core.gate_rules import Gate, Hold
from functions.core.record import FailurePolicy, Operation, OperationState, StepRecord, StepType, TaskRecord
from functions.core.task_events import ChildEnded, Due, GateReleased, OutcomeKind, StepDeferred, Verdict
from functions.storage.group_commits import fits
from functions.storage.index_pages import listed_task
from functions.storage.record_rows import (
    StoredTask,
    admission,
    closed_epoch,
    difference,
    find_keys_of,
    index_keys_of,
    index_rows,
    message_of,
    stored_task,
)
from functions.storage.row_keys import TaskIndex, index_range, next_receiver, task_in, time_in
from functions.storage.table_contract import CorruptRowError, RefusedChanges, Row, UnwritableRowsError
from tests.fakes.simulated_table import SimulatedTable
from tests.unit.core.builders import (
    DUE,
    NOT_DEPLOYED,
    SETTINGS,
    SUSPEND,
    after,
    answer,
    at,
    begin,
    cancel,
    end,
    new,
    payment,
    queue,
    resubmit,
    run,
    spec,
    start,
    undo_request,
)

LATER = datetime(2026, 5, 1, tzinfo=UTC)


def refused() -> TaskRecord:
    """Return a task that is undone after the refusal of a step."""
    record = run(new(spec("a", undo=True), spec("b", "a")), "a")
    return run(record, "b", OutcomeKind.REFUSED, error="no ä€𝄞")


def deferred() -> TaskRecord:
    """Return a task behind a gate."""
    record = new(spec("a"), queue("b"))
    record = after(record, StepDeferred(epoch=1, step="a"), StepDeferred(epoch=1, step="b"))
    return after(record, GateReleased(gate="queue:b", most=1), seconds=2)


def rebuilt() -> TaskRecord:
    """Return a step with earlier generations, texts of all columns, and the largest request."""
    do = Operation(
        state=OperationState.RUNNING,
        number=3,
        run=1,
        start_id="x",
        request='{"t":"' + "ü𝄞" * 14_000 + '"}',
        started_at=at(1),
        complete_by=at(30),
        defer_left=timedelta(seconds=3),
        result="r" * 30_000,
    )
    step = StepRecord(
        name="a", do=do, earlier_dos=(do, do), undone=1, event="{}", event_by="me", note="n", undo=do
    )
    record = new(spec("a", undo=True))
    order = replace(record.order, payload='{"p":"' + "p" * 90_000 + '"}')
    return replace(record, order=order, steps={"a": step}, reason="because\n", output='{"o":1}')


#: A task with an open question.
UNKNOWN = after(begin(new(payment()), "pay"), DUE, seconds=40)
RECORDS = {
    "new": new(spec("a")),
    "refused": refused(),
    "unknown": UNKNOWN,
    "not done": after(UNKNOWN, answer(UNKNOWN, "pay", Verdict.NOT_DONE), seconds=50),
    "done": after(UNKNOWN, answer(UNKNOWN, "pay", Verdict.DONE, '{"a":1}'), seconds=50),
    "undo requested": after(UNKNOWN, undo_request(UNKNOWN), seconds=50),
    "deferred": deferred(),
    "rebuilt": rebuilt(),
    "cancelled": after(run(new(spec("a", undo=True), spec("b", "a")), "a"), cancel()),
    "suspended": after(new(spec("a")), SUSPEND),
    "not deployed": after(new(spec("a")), NOT_DEPLOYED),
    "processed": run(new(spec("a")), "a"),
    "event": new(spec("e", type=StepType.EVENT, default='{"a":1}', role="Boss", complete_within=60)),
    "child": new(spec("c", type=StepType.WORKFLOW, workflow="other", item=3, item_digest="d", at_once=2)),
    "traced": new(
        spec("a"), correlation_id="c-7", traceparent="00-4bf9-00f0-01", parent="p", parent_step="s"
    ),
}


def written(record: TaskRecord) -> SimulatedTable:
    """Return a table with a record."""
    table = SimulatedTable()
    changes, _ = admission(record, "w1", ("customer|7",))
    assert not isinstance(table.write("000", changes), RefusedChanges)
    return table


def read(table: SimulatedTable) -> StoredTask:
    """Return the task of a table."""
    stored = stored_task([row for (_, key), row in table.rows.items() if key.startswith("t|")], "t")
    assert stored is not None
    return stored


@pytest.mark.parametrize("name", RECORDS)
def test_record_is_read_as_it_was_written(name: str) -> None:
    """All facts, derived columns, and the keys of the index rows."""
    record = RECORDS[name]
    table = written(record)
    stored = read(table)
    assert stored.record == replace(record, outbox=(), closed=())
    assert stored.writes == ("w1",)
    found_by = table.keys("!d") + table.keys("!e") + table.keys("!su") + table.keys("!g")
    assert sorted(index_rows(stored)) == sorted(found_by)
    assert sorted(index_keys_of(table.rows["000", "t|task"])) == sorted(found_by)
    assert table.keys("!find|") == find_keys_of(table.rows["000", "t|order"], "t")
    messages = [message_of(table.rows["000", key]) for key in table.keys("!send|")]
    assert {each.id for each in messages} == {each.id for each in record.outbox}
    epochs = [closed_epoch(table.rows["000", key]) for key in table.keys("t|epoch|")]
    assert epochs == list(record.closed)


@pytest.mark.parametrize("name", RECORDS)
def test_difference_leads_to_the_next_record(name: str) -> None:
    """The rows after a change are those of the next record."""
    record = RECORDS[name]
    first = replace(new(*record.order.specs), order=record.order)
    table = written(first)
    base = read(table)
    changes, stored = difference(base, record, "w2")
    assert not isinstance(table.write("000", changes), RefusedChanges)
    assert read(table).record == stored.record == replace(record, outbox=(), closed=())
    assert read(table).writes == ("w2", "w1")
    assert sorted(index_rows(read(table))) == sorted(
        table.keys("!d") + table.keys("!e") + table.keys("!su") + table.keys("!g")
    )
    changes, _ = difference(replace(stored, etag=read(table).etag), stored.record, "w3")
    assert [each.key for each in changes] == ["t|task"]


def test_change_of_ninety_steps_with_large_texts_fits() -> None:
    """Ninety calls are under way, one asks a question, and the undo of all turns them at once."""
    specs = [spec(f"s{number}", agent="a", idempotent=False) for number in range(90)]
    record = new(*specs)
    for each in specs:
        record = after(record, start(record, each.name, request='"' + "ü" * 29_000 + '"'))
    record = after(record, DUE, seconds=40)
    table = SimulatedTable()
    table.write("000", admission(new(*specs), "w1", ())[0])
    for first in range(0, 90, 15):  # the rows as earlier changes have left them
        some = {each.name: record.steps[each.name] for each in specs[: first + 15]}
        changes, _ = difference(read(table), replace(record, steps=some, outbox=(), closed=()), "w2")
        assert not isinstance(table.write("000", changes), RefusedChanges)
    changes, stored = difference(read(table), after(record, undo_request(record), seconds=50), "w3")
    assert fits(changes)
    assert not isinstance(table.write("000", changes), RefusedChanges)
    assert read(table).record == stored.record
    assert {step.note is not None for step in stored.record.steps.values()} == {True}
    rows = (row for (_, key), row in table.rows.items() if "|step|" in key)
    assert {row["State"] for row in rows} == {"not started"}  # of the undos


@pytest.mark.parametrize(("number", "times"), [(90, 1), (1, 20)])
def test_children_can_be_resubmitted_again_and_again(number: int, times: int) -> None:
    """The request of all generations is written once."""
    names = [f"c{index}" for index in range(number)]
    record = new(*(spec(name, type=StepType.WORKFLOW) for name in names), on_failure=FailurePolicy.KEEP)
    for generation in range(times):
        for name in names:
            record = after(record, start(record, name, request="ü" * 29_900))
        children = {name: record.order.child(name, generation) for name in names}
        ends = (ChildEnded(step=name, run_id="r", child=children[name], is_done=False) for name in names)
        record = replace(after(record, *ends), outbox=(), closed=())
        changes, stored = difference(StoredTask(record, "", (), ""), after(record, resubmit(record)), "w2")
        record = stored.record
        assert fits(changes)
    assert number > 1 or read(written(record)).record == record


def test_row_of_a_payment_that_is_never_begun_stays_small() -> None:
    """Only the latest starts are kept."""
    record = new(pay := payment(type=StepType.QUEUE))
    for seconds in range(600):
        record = run(record, "pay", OutcomeKind.NOT_BEGUN, seconds)
        record = after(record, GateReleased(gate=pay.gate, most=1), seconds=seconds)
    assert len(str(written(record).rows["000", "t|step|pay"])) < 7_000


@pytest.mark.parametrize("text", ["ü" * 30_000, "😀" * 15_000], ids=["2 bytes", "4 bytes"])
def test_rebuild_is_rejected_before_the_row_is_full(text: str) -> None:
    """The row has room for another request, its result, and the request of its undo."""
    do = Operation(number=1, request=text)
    earlier = tuple(replace(do, request=f"{number}{do.request}") for number in range(13))
    step = StepRecord(name="a", do=replace(do, result=do.request), undo=do, earlier_dos=earlier)
    record = new(spec("a")).with_step(step)
    assert read(written(record)).record.steps == record.steps
    with pytest.raises(UnwritableRowsError, match="step a: its earlier requests take"):
        written(record.with_step(step.with_new_do()))


def test_changes_of_steps_behind_many_gates_fit() -> None:
    """The credit of a hold changes all steps. Then the deferrals end that move the rows of all gates."""
    names = [f"{gate}{number}" for number in range(2) for gate in map("g{}x".format, range(31))]
    record = new(*(spec(name, agent=name[:-1], on_failure=FailurePolicy.CONTINUE) for name in names))
    for name in names:
        record = after(record, StepDeferred(epoch=1, step=name), seconds=1 + 100 * int(name[-1]))
    hold = Hold(start=at(200), end=at(205), reason="r", who="op")
    for ended in (0, 31):
        _, stored = admission(record, "w1")
        due = Due(may_recover=True, holds={"g0x": (hold,)})
        record = after(stored.record, due, seconds=6 * 3600 + 10)
        assert fits(difference(stored, record, "w2")[0])
        assert sum(do.error is not None for _, do in record.operations) == ended


def test_deferrals_of_overdue_requests_in_many_queues_fit() -> None:
    """Each moves the row of its gate, since another step waits there for a shorter time."""
    record = new(*(queue(f"{name}{number}", agent=f"q{number}") for number in range(23) for name in "ab"))
    for number in range(23):
        record = after(record, start(record, f"a{number}", by=30))
        record = after(record, StepDeferred(epoch=1, step=f"b{number}"), seconds=10)
    holds = {each.gate: (Hold(start=at(5), reason="r", who="op"),) for each in record.order.specs}
    queues = {gate: Gate(name=gate, holds=held) for gate, held in holds.items()}
    _, stored = admission(record, "w1")
    looked = after(stored.record, Due(may_recover=True, holds=holds, queues=queues), seconds=400)
    assert {do.gate for _, do in looked.operations} == holds.keys()
    assert fits(difference(stored, looked, "w2")[0])


def test_late_outcome_beside_a_decision_of_the_largest_task_fits() -> None:
    """It has 47 steps and 45 Agents. An epoch and all waits end, with three alerts and a notice."""
    pay = payment(undo=False, complete_within=600, agent="x0")
    optional = spec("b", agent="x1", idempotent=False, on_failure=FailurePolicy.CONTINUE)
    waiting = [spec(f"w{number}", agent=f"x{number}") for number in range(1, 45)]
    settings = replace(SETTINGS, threshold=0, extended_waits=())
    record = new(pay, optional, spec("c", agent="x2"), *waiting, on_exhausted=FailurePolicy.COMPENSATE)
    first = record = after(record, start(record, "pay"), settings=settings)
    record = after(record, DUE, seconds=40, settings=settings)
    record = after(record, answer(record, "pay", Verdict.NOT_DONE), seconds=50, settings=settings)
    starts = [start(record, name, by=by) for name, by in (("pay", 900), ("b", 90), ("c", 100))]
    waits = [StepDeferred(epoch=record.epoch, step=each.name) for each in waiting]
    record = after(record, *starts, *waits, seconds=51, settings=settings)
    for seconds in (95, 110):
        record = after(record, DUE, seconds=seconds, settings=settings)
    _, stored = admission(replace(record, outbox=(), closed=()), "w1")
    changed = after(stored.record, end(first, "pay"), seconds=120, settings=settings)
    assert (len(changed.closed), len(changed.outbox)) == (1, 4)
    assert fits(difference(stored, changed, "w2")[0])


def test_gate_row_is_deleted_after_the_deferral() -> None:
    """It names the gate and the time since which the task waits."""
    record = RECORDS["deferred"]
    table = written(record)
    assert table.keys("!gate|") == ["!gate|a|20260101T000001.000000Z|t"]
    released = after(record, GateReleased(gate="a", most=1), seconds=3)
    changes, _ = difference(read(table), released, "w2", missing=["!gate|other"])
    assert "!gate|a|20260101T000001.000000Z|t" in [each.key for each in changes if each.kind == "delete"]
    changes, _ = difference(read(table), released, "w2", missing=table.keys("!gate|"))
    assert not [each for each in changes if each.kind == "delete" and each.key.startswith("!gate|")]


@pytest.mark.parametrize("name", RECORDS)
def test_derived_columns_are_not_read(name: str) -> None:
    """They follow from the facts, so a wrong or missing column changes no record."""
    table = written(RECORDS[name])
    row, record = table.rows["000", "t|task"], read(table).record
    for column in ("ProcessState", "LockedBy", "CompleteBy", "DueAt", "WaitingFor"):
        row.pop(column, None)
    row["ProcessState"] = "Processed"
    assert read(table).record == record


def test_columns_of_operators() -> None:
    """The index row of a task in `Error` has the reason, and the task row its facts."""
    table = written(RECORDS["refused"])
    [key] = table.keys("!error|") or table.keys("!due|")
    row, own = table.rows["000", key], table.rows["000", "t|task"]
    assert (row["OrderID"], row["Workflow"], row["WorkflowVersion"], row["Submitter"]) == ("t", "w", 1, "me")
    assert {"ProcessState", "WaitingFor", "FailureCount", "Epoch"} <= set(own)
    assert row["ProcessState"] == own["ProcessState"]
    table = written(UNKNOWN)
    [key] = table.keys("!error|")
    assert "outcome is unknown" in table.rows["000", key]["Reason"]


def test_index_row_of_an_error_has_its_cause() -> None:
    """A list by failed step and class of error reads no task."""
    kept = new(spec("a.1", item=1), on_failure=FailurePolicy.KEEP)
    table = written(run(kept, "a.1", OutcomeKind.REFUSED, error="no seat 17 for t"))
    [key] = table.keys("!error|")
    listed = listed_task(table.rows["000", key])
    assert (listed.failed_step, listed.error_class) == ("a", "a: no seat … for …")
    table = written(replace(kept, finished_at=at(9), error="not finished within 9 s"))
    [key] = table.keys("!error|")
    listed = listed_task(table.rows["000", key])
    assert (listed.failed_step, listed.error_class) == (None, "not finished within … s")
    for name in ("new", "processed", "cancelled"):
        table = written(RECORDS[name])
        [key] = table.keys("!due|") + table.keys("!done|")
        assert not {"FailedStep", "ErrorClass"} & set(table.rows["000", key])


@pytest.mark.parametrize(
    ("key", "column", "value"),
    [
        ("t|order", "Facts", "{"),
        ("t|order", "Facts", '{"task":"other","run_id":"r","workflow":"w","version":1,"digest":"d"}'),
        ("t|order", "Specs", None),
        ("t|order", "Payload", 7),
        ("t|task", "Facts", '{"start_by":"never"}'),
        ("t|task", "Steps", 2),
        ("t|task", "Writes", None),
        ("t|task", "Index", None),
        ("t|step|a", "Do", '{"state":"dancing"}'),
        ("t|step|a", "Do", ""),
        ("t|step|a", "Undone", "x"),
    ],
)
def test_corrupt_row_is_named(key: str, column: str, value: Any) -> None:
    """The error names the row and shows no value of it."""
    table = written(RECORDS["rebuilt"] if column == "Undone" else RECORDS["processed"])
    row = table.rows["000", key]
    if value is None:
        del row[column]
    else:
        row[column] = value
    with pytest.raises(CorruptRowError) as error:
        read(table)
    assert error.value.row_key == key
    assert "dancing" not in str(error.value)


def test_row_whose_time_has_no_zone_is_corrupt() -> None:
    """It does not compare with the others."""
    table = written(new(spec("a"), complete_within=20))
    row = table.rows["000", "t|task"]
    row["Facts"] = row["Facts"].replace('Z"', '"', 1)
    with pytest.raises(CorruptRowError, match="ValidationError"):
        read(table)


def test_missing_rows_are_corrupt() -> None:
    """A lost step row is no step that never started, and a foreign one is no step."""
    table = written(RECORDS["processed"])
    step = table.rows.pop(("000", "t|step|a"))
    with pytest.raises(CorruptRowError, match="0 step rows instead of 1"):
        read(table)
    table.rows["000", "t|step|z"] = {**step, "RowKey": "t|step|z"}
    with pytest.raises(CorruptRowError, match="no such step"):
        read(table)
    del table.rows["000", "t|step|z"], table.rows["000", "t|order"]
    with pytest.raises(CorruptRowError, match=r"t\|order"):
        read(table)
    assert stored_task([], "t") is None


def test_corrupt_message_is_named() -> None:
    """The outbox relay skips it."""
    row: Row = {"RowKey": "!send|alert|x", "Message": "{}"}
    with pytest.raises(CorruptRowError, match="alert"):
        message_of(row)


@pytest.mark.parametrize("index", [TaskIndex.DUE, TaskIndex.DONE, TaskIndex.FIND])
def test_keys_of_an_index_are_in_the_range_of_their_time(index: TaskIndex) -> None:
    """`since` is included and `until` excluded, in both orders."""
    name = "k" if index is TaskIndex.FIND else ""
    table = written(replace(RECORDS["processed"], finished_at=LATER))
    key = {
        TaskIndex.DUE: f"!due|{LATER:%Y%m%dT%H%M%S.%f}Z|t",
        TaskIndex.DONE: table.keys("!done|")[0],
        TaskIndex.FIND: table.keys("!done|")[0].replace("!done|", "!find|k|"),
    }[index]
    assert (time_in(key), task_in(key)) == (LATER, "t")
    tick = timedelta.resolution
    for since, until, is_in in [
        (None, None, True),
        (LATER, None, True),
        (LATER + tick, None, False),
        (None, LATER, False),
        (None, LATER + tick, True),
        (LATER, LATER + tick, True),
    ]:
        keys = index_range(index, name, since=since, until=until)
        assert (keys.first <= key < keys.end) is is_in, (since, until)


def test_index_keys_of_suspended_tasks() -> None:
    """Those of an operator are apart from those of a version."""
    assert written(RECORDS["suspended"]).keys("!suspended|") == ["!suspended|~operator|t"]
    [key] = written(RECORDS["not deployed"]).keys("!suspended|")
    keys = index_range(TaskIndex.SUSPENDED, "w|1")
    assert keys.first <= key < keys.end
    assert time_in(key) is None
    with pytest.raises(ValueError, match="other"):
        time_in("!other|x|t")


def test_end_of_a_receiver() -> None:
    """The outbox relay passes over a receiver that fails."""
    assert "!send|a|x" < next_receiver("!send|a|b") < "!send|b|a"
