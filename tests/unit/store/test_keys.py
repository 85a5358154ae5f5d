"""Keys of the tables: no task's rows can be taken for another's, and index rows sort by time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.identity import TASK_ID_PATTERN, TaskId
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index
from functions.store.keys import (
    index_key,
    index_row,
    index_time,
    order_row,
    rows_of,
    shard_key,
    shard_number,
    step_row,
    task_row,
)
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE

TASKS = st.from_regex(TASK_ID_PATTERN, fullmatch=True).map(TaskId)
#: Hypothesis wants bounds without a zone.
FIRST, LAST = (datetime(year, 1, 1) for year in (2000, 2200))  # noqa: DTZ001 - as said
TIMES = st.datetimes(FIRST, LAST, timezones=st.just(UTC))
#: What Table Storage refuses in keys.
FORBIDDEN = set("/\\#?\t\n\r")


def _rows(task: TaskId) -> list[str]:
    return [order_row(task), task_row(task), *(step_row(task, number) for number in range(90))]


@given(TASKS)
def test_rows_of_a_task_lie_between_its_bounds(task: TaskId) -> None:
    """One range query reads them all, the steps in their order."""
    first, end = rows_of(task)
    rows = _rows(task)
    assert all(first <= row < end for row in rows)
    assert rows[2:] == sorted(rows[2:])
    assert len(set(rows)) == len(rows)


@given(TASKS, TASKS)
def test_rows_of_another_task_lie_outside(task: TaskId, other: TaskId) -> None:
    """Also when one name begins like the other, and index rows too."""
    first, end = rows_of(task)
    if task != other:
        assert not [row for row in _rows(other) if first <= row < end]
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
    keys = [*_rows(task), index_row(pending(LINE, task).task), shard_key(shard_number(task, 256))]
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
