"""Tasks in `Error` are grouped by cause, out of their index."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from functions.pattern.errors import UnreadableError
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from tests.fakes.tasks import after, claimed, failed, pending, started, told
from tests.fakes.workflows import LINE
from tests.unit.api.samples import wrong_fields
from tests.unit.operations.conftest import Desk, in_error, processed


def _at(seconds: float) -> str:
    return after(seconds).isoformat().replace("+00:00", "Z")


def _refused(task: str, at: float, error: str) -> TaskRecord:
    name = TaskId(task)
    running = told(pending(LINE, name), claimed(task=name), started("pick", task=name, complete_by=1_000))
    return told(running, failed("pick", task=name, error=error), now=after(at))


def _entry(number: int, error: str) -> IndexEntry:
    task, at = TaskId(f"t-{number}"), after(number)
    state, step = ProcessState.ERROR, StepName("pick")
    return IndexEntry(task, at, "line", state, at, 1, "ada", step=step, error=error)


async def test_tasks_that_failed_for_one_cause_are_one_group(desk: Desk) -> None:
    """With how many, since when, until when and an example; the largest group comes first."""
    desk.holds(
        in_error("other"),
        *(_refused(f"e-{number}", 10 + number, f"drone answered 503 ({number})") for number in range(3)),
        _refused("e-9", 5, "drone answered 422"),
        processed("d-1"),
    )
    answer = (await desk.get("/errors")).json
    assert [(each["count"], each["error"]) for each in answer["groups"]] == [
        (3, "pick: drone answered 503 (…)"),
        (1, "pick: drone answered 422"),
        (1, "send: no money"),
    ]
    first = answer["groups"][0]
    assert (first["workflow"], first["version"], first["step"]) == ("line", 1, "pick")
    assert (first["first_at"], first["last_at"], first["example"]) == (_at(10), _at(12), "e-2")
    assert (answer["looked_to"], desk.index.requests) == (None, desk.index.shards)


async def test_filter_of_a_group_lists_its_tasks_and_no_others(desk: Desk) -> None:
    """So that what is done to a group is done to what it shows."""
    desk.holds(
        in_error("other"),
        _refused("e-1", 1, "drone answered 503 (1)"),
        _refused("e-2", 2, "drone answered 503 (2)"),
    )
    for group in (await desk.get("/errors")).json["groups"]:
        listed = (await desk.get(f"/tasks?{urlencode(group['filter'])}")).json["tasks"]
        assert len(listed) == group["count"]
        assert listed[0]["id"] == group["example"]


async def test_groups_are_narrowed_to_a_workflow_and_its_version(desk: Desk) -> None:
    """As the list is."""
    desk.holds(in_error())
    for query, groups in {"workflow=line&version=1": 1, "version=2": 0, "workflow=diamond": 0}.items():
        assert len((await desk.get(f"/errors?{query}")).json["groups"]) == groups


async def test_more_than_one_reading_goes_on_where_it_has_looked_to(desk: Desk) -> None:
    """Each task is in one answer's groups: none is counted twice, or left out."""
    desk.index.wrong[Index.ERROR] = [_entry(number, "pick: late") for number in range(5_000)]
    counts, before = [], ""
    while True:
        answer = (await desk.get(f"/errors{before}")).json
        counts.append(sum(group["count"] for group in answer["groups"]))
        if answer["looked_to"] is None:
            break
        before = f"?before={answer['looked_to']}"
    assert sum(counts) == 5_000
    assert 2 < len(counts) < 6


@pytest.mark.parametrize("halts", [False, True])
@pytest.mark.parametrize(("path", "shown"), [("/errors", "groups"), ("/tasks", "tasks")])
async def test_damaged_row_is_named(desk: Desk, path: str, shown: str, halts: bool) -> None:  # noqa: FBT001 - a parameter
    """It hides no other, even on a page that is empty and not the last."""
    desk.holds(in_error())
    desk.index.damaged, desk.index.halts = [UnreadableError("!error|x", "ValueError")], halts
    answer = (await desk.get(path)).json
    assert [row["key"] for row in answer["unreadable"]] == ["!error|x"]
    assert len(answer[shown]) == 1


@pytest.mark.parametrize("before", ["2026-11-21T10:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_time_that_can_not_be_meant_is_refused(desk: Desk, before: str) -> None:
    """The field is named."""
    [field] = wrong_fields(await desk.get(f"/errors?before={before}"))
    assert "before" in field
