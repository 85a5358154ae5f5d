"""Rows and keys of the tables, and the bounded memory of tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.pattern.announcements import announcements
from functions.pattern.breaker import BreakerRecord
from functions.pattern.identity import TASK_ID_PATTERN, TaskId
from functions.pattern.records import (
    MAX_RESULT_BYTES,
    EpochRecord,
    Extension,
    LostMessage,
    Order,
    SentAnnouncement,
    Task,
    TaskRecord,
)
from functions.pattern.shares import Share
from functions.pattern.states import ProcessState
from functions.pattern.step_records import PastStep, StepRecord
from functions.pattern.store_ports import Index, Stored
from functions.store import remembered
from functions.store.entities import (
    BREAKER,
    RowCodec,
    announcement_of,
    entity,
    outbox_entity,
    record_of,
    task_entity,
    task_of,
    writes_of,
)
from functions.store.index_entities import index_entity
from functions.store.keys import (
    epoch_row,
    index_key,
    index_row,
    index_time,
    lost_row,
    order_row,
    rows_of,
    shard_key,
    shard_number,
    step_row,
    task_row,
)
from functions.store.remembered import RememberedTasks, newest
from tests.fakes.tasks import after, pending
from tests.fakes.workflows import DIAMOND, LINE, TRIP, each, step, workflow

_TIMES = st.datetimes(timezones=st.just(UTC))
_IDS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)

#: The columns of each kind beside its keys: rows that are stored have these names.
_COLUMNS = {
    Order: "Birth CorrelationID Digest ItemDigests Items Parent Payload ReplyTo SearchKeys Shape SubmittedAt"
    " Submitter TraceParent Workflow WorkflowVersion",
    Task: "Answer CompleteBy Decision Direction DueAt Epoch Extended FailureCount FinishedAt LastError"
    " LockedBy NotBefore OrderID ParkedFor ParkedReasons ProcessState Run Sent UpdatedAt",
    StepRecord: "Activity AskedAt Attempts CompleteBy Epoch Error FinishedAt HandedOver Name NotTaken Noted"
    " Received Result StartId StartedAt State Token ToldBy ToldWhy TurnedAwayAt",
    EpochRecord: "Direction EndedAt EndedBy Epoch LastError LockedBy ProcessState Reason Run Steps"
    " TraceParent Who",
    LostMessage: "LostAt MessageId Queue Reason",
    BreakerRecord: "AtOnce Failures LastError ProbeAt Ramp RampAt Service Shares Since State",
}


def _values(hint: Any) -> st.SearchStrategy[Any]:
    if hint is datetime:
        return _TIMES
    if datetime in get_args(hint):
        return st.none() | _TIMES
    return st.from_type(hint)


def _records(kind: Any, **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    others = {name: _values(hint) for name, hint in get_type_hints(kind).items() if name not in chosen}
    return st.builds(kind, **others, **chosen)


_STEP_OF_EPOCH = _records(PastStep)
_STEPS_OF_EPOCHS = st.lists(_STEP_OF_EPOCH, max_size=2).map(tuple)
_EACH = workflow(step("pick"), each("send", "pick"), each("close", "send"))
_SHAPES = st.sampled_from([LINE.shape, TRIP.shape, DIAMOND.shape, _EACH.shape])
_ANNOUNCEMENTS = st.lists(_records(SentAnnouncement), max_size=2).map(tuple)


_SHARES = st.lists(_records(Share), max_size=2).map(tuple)
_EXTENDED = _records(Extension, seconds=st.floats(0, 1_000_000))
_EXTENSIONS = st.none() | _EXTENDED


@st.composite
def _whole(draw: st.DrawFn) -> TaskRecord:
    """Give a task with rows of every kind; the rows' order is that of their keys."""
    task = draw(_IDS)
    epochs = draw(
        st.lists(_records(EpochRecord, steps=_STEPS_OF_EPOCHS), max_size=2, unique_by=lambda each: each.epoch)
    )
    shape = draw(_SHAPES)
    items = tuple(draw(st.integers(0, 3)) for step in shape.steps if step.at_once is not None)
    order = draw(_records(Order, task=st.just(task), shape=st.just(shape), items=st.just(items)))
    return TaskRecord(
        order=order,
        task=draw(_records(Task, order_id=st.just(task), sent=_ANNOUNCEMENTS, extended=_EXTENSIONS)),
        steps=tuple(draw(_records(StepRecord, shape=st.just(each))) for each in order.steps),
        history=tuple(epochs),
        lost=tuple(draw(st.lists(_records(LostMessage), max_size=2))),
    )


def _rows(record: TaskRecord) -> list[dict[str, Any]]:
    task = record.order.task
    return [
        task_entity(record.task, ("write-2", "write-1")),
        entity(order_row(task), record.order),
        *(entity(step_row(task, number), step) for number, step in enumerate(record.steps)),
        *(entity(epoch_row(task, each.epoch), each) for each in record.history),
        *(entity(lost_row(task, each), each) for each in record.lost),
    ]


@settings(max_examples=40, deadline=None)
@given(_whole())
def test_record_comes_back_from_its_rows(record: TaskRecord) -> None:
    """Whatever is None; and no row holds a null or an enum, which the SDK would not take."""
    rows = _rows(record)
    assert record_of(rows) == record
    assert writes_of(rows[0]) == ("write-2", "write-1")
    assert {type(value) for row in rows for value in row.values()} <= {str, int, bool, bytes, datetime}


@settings(max_examples=20, deadline=None)
@given(_records(BreakerRecord, shares=_SHARES))
def test_circuit_breaker_comes_back_from_its_row(record: BreakerRecord) -> None:
    """As any other record."""
    assert BREAKER.decode(BREAKER.encode("breaker|drone", record)) == record


def _full(kind: Any) -> st.SearchStrategy[Any]:
    """Give a record of which nothing is None."""
    hints = {
        name: next((each for each in get_args(hint) if each is not type(None)), hint)
        if type(None) in get_args(hint)
        else hint
        for name, hint in get_type_hints(kind).items()
        if name
        not in {
            "steps",
            "sent",
            "parked_reasons",
            "items",
            "item_digests",
            "search_keys",
            "not_taken",
            "shares",
        }
    }
    of_tuples: dict[Any, dict[str, st.SearchStrategy[Any]]] = {
        EpochRecord: {"steps": _STEP_OF_EPOCH},
        Order: {"items": st.integers(0, 90), "item_digests": st.text(), "search_keys": st.text(min_size=1)},
        StepRecord: {"not_taken": st.text(min_size=1)},
        BreakerRecord: {"shares": _records(Share)},
        Task: {"sent": _records(SentAnnouncement), "parked_reasons": st.text(min_size=1)},
    }
    tuples = {name: st.tuples(each) for name, each in of_tuples.get(kind, {}).items()}
    shapes = {Order: _SHAPES, StepRecord: st.just(LINE.shape.steps[0])}
    values = {name: shapes[kind] if name == "shape" else _values(hint) for name, hint in hints.items()}
    values |= {"extended": _EXTENDED} if kind is Task else {}
    return st.builds(kind, **values, **tuples)


@pytest.mark.parametrize("kind", _COLUMNS, ids=lambda kind: kind.__name__)
def test_columns_have_the_names_of_stored_rows(kind: type) -> None:
    """`OrderID`, `LockedBy`, `CompleteBy`, `ProcessState` and `FailureCount` are the pattern's own."""

    @settings(max_examples=2, deadline=None)
    @given(_full(kind))
    def columns(record: Any) -> None:
        row = BREAKER.encode("key", record) if kind is BreakerRecord else entity("key", record)
        assert (row.pop("RowKey"), row.pop("SchemaVersion")) == ("key", 1)
        assert sorted(row) == _COLUMNS[kind].split()

    columns()


@pytest.mark.parametrize(
    ("column", "value"),
    [("Epoch", None), ("Epoch", "1"), ("ProcessState", "Sleeping"), ("DueAt", "2026-11-21"), ("LockedBy", 1)],
)
def test_damaged_row_is_refused(column: str, value: object) -> None:
    """What is missing, of another type, or no known state is never taken for a task."""
    row = task_entity(pending().task, ("write-1",))
    assert task_of(row) == pending().task
    row[column] = value
    with pytest.raises(ValueError, match=r"ProcessState|column|can't be"):
        task_of(row)


def test_rows_without_a_task_are_refused() -> None:
    """Steps alone make none."""
    with pytest.raises(ValueError, match="lack its order or its state"):
        record_of([row for row in _rows(pending()) if "|step|" in row["RowKey"]])


@pytest.mark.parametrize("damage", ["missing", "another", "shape"])
def test_steps_that_are_not_the_orders_are_refused(damage: str) -> None:
    """Nothing is taken for a task whose steps are not what its shape says."""
    rows = _rows(pending())
    match damage:
        case "missing":
            rows = [row for row in rows if not row["RowKey"].endswith("|step|01")]
        case "another":
            next(row for row in rows if row["RowKey"].endswith("|step|01"))["Name"] = "other"
        case _:
            rows[1]["Shape"] = b'{"steps":[{}]}'
    with pytest.raises(ValueError, match=r"other steps|shape can't be read"):
        record_of(rows)


def test_row_of_a_later_version_is_passed_over() -> None:
    """It is written by that version, for itself."""
    task = pending().order.task
    assert record_of([*_rows(pending()), {"RowKey": f"{task}|note|1"}]) == pending()


def test_announcement_comes_back_from_its_row() -> None:
    """It lies beside the task whose change it follows."""
    record = pending()
    record = replace(record, order=replace(record.order, reply_to="notices-demo"))
    [received] = announcements(None, record)
    assert announcement_of(outbox_entity(received)) == received


def test_index_row_says_what_a_list_shows() -> None:
    """So that a list reads no task."""
    record = pending()
    row = index_entity(record)
    assert (row["OrderID"], row["ProcessState"]) == (record.order.task, "Pending")
    assert (row["Workflow"], row["SubmittedAt"]) == (record.order.workflow, record.order.submitted_at)


def test_type_without_a_column_is_refused() -> None:
    """At start, not when a row is written."""

    @dataclass(frozen=True)
    class Odd:
        sizes: float

    with pytest.raises(TypeError, match="no column for"):
        RowCodec(Odd, {})


TASKS = st.from_regex(TASK_ID_PATTERN, fullmatch=True).map(TaskId)
#: Hypothesis wants bounds without a zone.
FIRST, LAST = (datetime(year, 1, 1) for year in (2000, 2200))  # noqa: DTZ001 - as said
TIMES = st.datetimes(FIRST, LAST, timezones=st.just(UTC))
#: What Table Storage refuses in keys.
FORBIDDEN = set("/\\#?\t\n\r")


def _keys(task: TaskId) -> list[str]:
    return [order_row(task), task_row(task), *(step_row(task, number) for number in range(90))]


@given(TASKS)
def test_rows_of_a_task_lie_between_its_bounds(task: TaskId) -> None:
    """One range query reads them all, the steps in their order."""
    first, end = rows_of(task)
    rows = _keys(task)
    assert all(first <= row < end for row in rows)
    assert rows[2:] == sorted(rows[2:])
    assert len(set(rows)) == len(rows)


@given(TASKS, TASKS)
def test_rows_of_another_task_lie_outside(task: TaskId, other: TaskId) -> None:
    """Also when one name begins like the other, and index rows too."""
    first, end = rows_of(task)
    if task != other:
        assert not [row for row in _keys(other) if first <= row < end]
    assert not first <= index_row(pending(LINE, other).task) < end


@given(TASKS, st.integers(1, 256))
def test_shard_is_one_of_those_there_are(task: TaskId, shards: int) -> None:
    """And always the same one."""
    assert 0 <= shard_number(task, shards) < shards
    assert shard_number(task, shards) == shard_number(TaskId(str(task)), shards)


def test_shard_is_what_it_was() -> None:
    """Tasks on record must be found by a later version."""
    assert [shard_key(shard_number(TaskId(name), 16)) for name in ("task-1", "a", "Z_9")] == [
        "015",
        "003",
        "007",
    ]


@given(TASKS)
def test_keys_hold_nothing_that_the_service_refuses(task: TaskId) -> None:
    """Whatever a caller names its order."""
    keys = [*_keys(task), index_row(pending(LINE, task).task), shard_key(shard_number(task, 256))]
    assert not [key for key in keys if FORBIDDEN & set(key)]


@given(TIMES, TIMES, st.sampled_from([UTC, timezone(timedelta(hours=9))]))
def test_index_rows_sort_by_time(one: datetime, other: datetime, zone: timezone) -> None:
    """Oldest first, to the microsecond, whatever zone a time is told in."""
    earlier, later = sorted((one, other))
    rows = [index_row(replace(pending(LINE).task, due_at=time)) for time in (earlier.astimezone(zone), later)]
    assert rows == sorted(rows)
    assert (rows[0] == rows[1]) is (earlier == later)


@given(TIMES, TIMES, st.sampled_from([UTC, timezone(timedelta(hours=9))]))
def test_what_ended_sorts_latest_first(one: datetime, other: datetime, zone: timezone) -> None:
    """To the microsecond; and the time is read back."""
    later, earlier = sorted((one, other), reverse=True)
    for index in (Index.ERROR, Index.DONE):
        rows = [index_key(index, time, TaskId("t")) for time in (later.astimezone(zone), earlier)]
        assert rows == sorted(rows)
        assert [index_time(row) for row in rows] == [later, earlier]


@given(TIMES)
def test_each_state_has_its_index(time: datetime) -> None:
    """Under way, given up, or done."""
    task = pending(LINE).task
    ends = {
        ProcessState.ERROR: "!error|",
        ProcessState.PROCESSED: "!done|",
        ProcessState.COMPENSATED: "!done|",
    }
    assert index_row(task).startswith("!due|")
    for state, prefix in ends.items():
        assert index_row(replace(task, process_state=state, finished_at=time)).startswith(prefix)


def _stored(task: str, *, finished: bool = False, updated: float = 0) -> Stored:
    record = pending(LINE, TaskId(task))
    changed = replace(
        record.task, updated_at=after(updated), finished_at=after(updated) if finished else None
    )
    return Stored(replace(record, task=changed), f"{task}.{updated}")


def test_task_that_was_written_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished tasks, which few ask for, take no room from those under way."""
    monkeypatch.setattr(remembered, "_MOST_UNDER_WAY", 2)
    monkeypatch.setattr(remembered, "_MOST_FINISHED", 1)
    tasks = RememberedTasks()
    for name in ("a", "b", "a", "c"):
        tasks.keep(_stored(name))
    for name in ("d", "e"):
        tasks.keep(_stored(name, finished=True))
    known = [name for name in "abcde" if tasks.find(TaskId(name)) is not None]
    assert known == ["a", "c", "e"]


def test_task_is_remembered_once() -> None:
    """As it was written last, and not at all once it is forgotten."""
    tasks = RememberedTasks()
    tasks.keep(_stored("a"))
    tasks.keep(done := _stored("a", finished=True))
    assert tasks.find(TaskId("a")) == done
    tasks.forget(TaskId("a"))
    assert tasks.find(TaskId("a")) is None


def test_newer_record_is_used() -> None:
    """What the caller has read may be newer than what this process wrote, or older."""
    old, new = _stored("a", updated=1), _stored("a", updated=2)
    assert newest(old, new) == newest(new, old) == new
    assert newest(None, old) == newest(old, None) == old
    assert newest(None, None) is None


_MOST_BYTES = 100 * 1024 * 1024


@pytest.mark.parametrize("field", ["result", "received"])
def test_a_crowd_of_wide_tasks_with_large_results_stays_within_bounds(field: str) -> None:
    """1,000 tasks of 90 results of 24 KiB are 2 GiB; the plan of a Function app has 1.5 to 2."""
    result = b"r" * MAX_RESULT_BYTES  # one object here, one for each step in a process
    wide = pending(workflow(*(step(f"s{number:02d}") for number in range(90))))
    large: Any = {field: result}
    steps = tuple(replace(each, **large) for each in wide.steps)
    remembered = RememberedTasks()
    tasks = [TaskId(f"task-{number}") for number in range(1_000)]
    for task in tasks:
        record = replace(wide, steps=steps, task=replace(wide.task, order_id=task))
        remembered.keep(Stored(record, "1"))
    kept = [remembered.find(task) for task in tasks]
    assert sum(90 * MAX_RESULT_BYTES for each in kept if each is not None) <= _MOST_BYTES
