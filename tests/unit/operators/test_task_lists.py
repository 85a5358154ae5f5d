"""Lists of tasks by state, age, text and cause, page by page in the order of time over all shards."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from functions.core.task_events import Suspended
from functions.operators import task_list
from functions.operators.task_list import ListQuery, Sorting
from functions.storage.record_rows import split
from functions.storage.row_keys import TaskIndex, index_range, shard_of
from functions.storage.table_contract import RowChange
from tests.fakes.clock import START
from tests.unit.api.scene import wrong_fields
from tests.unit.operators.conftest import SHARDS, TASK, Desk


async def _listed(desk: Desk, query: str = "") -> list[str]:
    answer = await desk.get(f"/tasks?{query}")
    assert answer.status == 200, answer.body
    return [task["id"] for task in answer.json["tasks"]]


async def _pages(desk: Desk, query: str) -> list[list[str]]:
    pages, cursor = [], ""
    while True:
        page = (await desk.get(f"/tasks?{query}{cursor}")).json
        pages.append([task["id"] for task in page["tasks"]])
        if page["cursor"] is None:
            return pages
        cursor = f"&cursor={page['cursor']}"


def _joined(pages: list[list[str]]) -> list[str]:
    return [task for page in pages for task in page]


def _cursor(**fields: object) -> str:
    return urlsafe_b64encode(json.dumps(fields).encode()).decode()


def _put(
    desk: Desk, index: TaskIndex, task: str, seconds: float, state: str = "Processed", **columns: Any
) -> None:
    """Write an index row of a task that does not exist, or ended some seconds after the start."""
    at = START + timedelta(seconds=seconds)
    key = f"{index_range(index, until=at + timedelta.resolution).first}|{task}"
    row = {
        "OrderID": task,
        "Workflow": "line",
        "WorkflowVersion": 1,
        "Submitter": "tester",
        "SubmittedAt": at.isoformat(),
        **split("ProcessState", state),
        **columns,
    }
    desk.table.write(shard_of(task, SHARDS), [RowChange("upsert", key, row)])


async def test_each_state_has_its_own_list(desk: Desk) -> None:
    """By default, the tasks in `Error` are listed."""
    await desk.in_error("e-1")
    await desk.submit("p-1")
    await desk.submit("r-1")
    await desk.run("r-1")
    await desk.processed("d-1")
    await desk.submit("s-1")
    await desk.change(Suspended(reason="op: closed", by_operator=True), "s-1")
    [line] = (await desk.get("/tasks")).json["tasks"]
    shown = {"id": "e-1", "state": "Error", "reason": "send: no money", "epoch": 1, "due_at": None}
    assert line | shown | {"workflow": "line"} == line
    lists = {"Pending": "p-1", "Processing": "r-1", "Processed": "d-1", "Error": "e-1"}
    for state, task in lists.items():
        assert await _listed(desk, f"state={state}") == [task]
    assert await _listed(desk, "state=Compensated") == []
    assert sorted(await _listed(desk, "under_way=true")) == ["p-1", "r-1"]
    assert await _listed(desk, "suspended=true") == ["s-1"]
    assert await _listed(desk, "state=Pending&under_way=true") == ["p-1"]
    assert await _listed(desk, "state=Processing&suspended=true") == []
    assert sorted(await _listed(desk, "submitter=tester")) == ["d-1", "e-1", "p-1", "r-1", "s-1"]


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("apart", [0.0, 60], ids=["of one moment", "by the minute"])
async def test_long_lists_are_complete_and_in_order(
    desk: Desk, order: str, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More entries than one request reads; tasks of one moment are ordered by their ids."""
    monkeypatch.setattr(task_list, "_MERGED_ROWS", 7)
    names = [f"e-{number:03}" for number in range(120)]
    for name in names:
        await desk.in_error(name)
        desk.clock.advance(apart)
    pages = await _pages(desk, f"order={order}")
    assert _joined(pages) == (names if order == "oldest" or not apart else names[::-1])
    assert max(map(len, pages)) == 50


async def test_page_asks_each_shard_a_bounded_number_of_times(desk: Desk) -> None:
    """A rare state in a large index has an empty page, and its cursor continues."""
    for number in range(5_500):
        _put(desk, TaskIndex.DONE, f"t-{number}", number)
    desk.clock.advance(5_500)
    before = desk.table.reads
    page = (await desk.get("/tasks?state=Compensated")).json
    assert (page["tasks"], desk.table.reads - before) == ([], 8 * SHARDS)
    assert page["cursor"] is not None
    assert (await desk.get("/tasks?state=Processed&order=oldest")).json["more"] is True
    assert (await desk.get("/tasks?state=Processed&order=oldest&min_age=4000")).json["more"] is False


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("max_age=50", ["e-90", "e-50"]),
        ("min_age=50", ["e-50", "e-10"]),
        ("min_age=20&max_age=60", ["e-50"]),
        ("workflow=line&version=1", ["e-90", "e-50", "e-10"]),
        ("workflow=trip", []),
        ("version=2", []),
    ],
)
async def test_list_is_narrowed_by_age_and_workflow(desk: Desk, query: str, listed: list[str]) -> None:
    """The age of an ended task counts from its end."""
    now = 0
    for seconds in (10, 50, 90):
        desk.clock.advance(seconds - now)
        now = seconds
        await desk.in_error(f"e-{seconds}")
    desk.clock.advance(10)
    assert await _listed(desk, query) == listed
    assert await _listed(desk, f"{query}&order=oldest") == listed[::-1]


@pytest.mark.parametrize("asked", ["state=Pending", "under_way=true", "suspended=true"])
async def test_unfinished_tasks_are_listed_by_their_submission(desk: Desk, asked: str) -> None:
    """Their index is in another order; the age counts from the submission."""
    names = [f"p-{number:03}" for number in range(55)]
    for name in names:
        await desk.submit(name)
        if asked.startswith("suspended"):
            await desk.change(Suspended(reason="closed", by_operator=True), name)
        desk.clock.advance(1)
    pages = await _pages(desk, asked)
    assert ([len(page) for page in pages], _joined(pages)) == ([50, 5], names[::-1])
    assert _joined(await _pages(desk, f"{asked}&order=oldest")) == names
    assert await _listed(desk, f"{asked}&min_age=55") == ["p-000"]
    assert await _listed(desk, f"{asked}&max_age=1") == ["p-054"]


async def test_outdated_index_rows_are_left_out(desk: Desk) -> None:
    """The task was deleted, was resubmitted, or has ended."""
    await desk.submit()
    for task in ("gone", TASK):
        _put(desk, TaskIndex.ERROR, task, 0, state="Error", ErrorClass="x")
    assert await _listed(desk) == []
    [(place, row)] = [each for each in desk.table.rows.items() if each[0][1].startswith("!due|")]
    await desk.act("cancel")
    desk.table.write(place[0], [RowChange("upsert", place[1], row)])
    assert await _listed(desk, "under_way=true") == []
    assert await _listed(desk, "submitter=tester") == [TASK]


OF = ListQuery().digest


@pytest.mark.parametrize(
    "cursor",
    [
        "!",
        "abc",
        "x" * 513,
        _cursor(of=OF + 1, at=START.isoformat(), task="e-1"),
        _cursor(of=OF, at="2026-11-21T10:00:00", task="e-1"),
        _cursor(of=OF, at=START.isoformat(), task="e|1"),
        _cursor(of=OF, at=START.isoformat(), shard=1),
    ],
)
async def test_cursor_of_another_list_is_rejected(desk: Desk, cursor: str) -> None:
    """Or one that cannot be decoded."""
    assert await _listed(desk, f"cursor={_cursor(of=OF, at=START.isoformat(), task='e-1')}") == []
    assert "cursor" in wrong_fields(await desk.get(f"/tasks?cursor={cursor}"))[0]
    assert len({OF, *(ListQuery(order=order, find="x").digest for order in Sorting)}) == 3


async def test_tasks_are_found_by_caller_and_correlation(desk: Desk) -> None:
    """The newest first, ended or under way; a state narrows the list."""
    whose: dict[str, Any] = {"submitter": "ada", "correlation_id": "c-9"}
    await desk.in_error("e-1", **whose)
    await desk.processed("d-1", **whose)
    desk.clock.advance(5)
    await desk.submit("p-1", **whose)
    await desk.submit("p-2")
    for query in ("submitter=ada", "correlation_id=c-9"):
        assert await _listed(desk, query) == ["p-1", "d-1", "e-1"]
        assert await _listed(desk, f"{query}&state=Error") == ["e-1"]
        assert await _listed(desk, f"{query}x") == []


async def test_tasks_are_found_by_a_search_text(desk: Desk) -> None:
    """The latest submission first, in any state; all other filters apply."""
    for number, task in enumerate(("e-1", "d-1", "p-1")):
        desk.clock.advance(1)
        texts = ["ada@example.com", f"C-{number}"]
        await desk.submit(task, texts=texts)
    await desk.run("e-1")
    await desk.end("pick", "e-1", error="no")
    desk.clock.advance(10)
    before = desk.table.reads
    assert await _listed(desk, "find=Ada@example.com") == ["p-1", "d-1", "e-1"]
    assert desk.table.reads - before == SHARDS + 3
    assert await _listed(desk, "find=ada@example.com&order=oldest") == ["e-1", "d-1", "p-1"]
    assert await _listed(desk, "find=ada@example.com&state=Error") == ["e-1"]
    assert await _listed(desk, "find=ada@example.com&max_age=10") == ["p-1", "e-1"]
    assert await _listed(desk, "find=c-2") == ["p-1"]
    assert await _listed(desk, "find=nobody") == []


async def _refused(desk: Desk, task: str, error: str) -> None:
    await desk.submit(task)
    await desk.run(task)
    await desk.end("pick", task, error=error)


async def test_tasks_in_error_are_found_by_step_and_class_of_error(desk: Desk) -> None:
    """The text of one task finds all of its class."""
    await _refused(desk, "e-1", "pick answered 503 (request 17)")
    await _refused(desk, "e-2", "pick answered 503 (request 18)")
    await _refused(desk, "e-3", "pick answered 422")
    await desk.in_error("e-4")
    copied = "error=pick: pick answered 503 (request 99)"
    assert await _listed(desk, copied) == ["e-1", "e-2"]
    assert await _listed(desk, "step=pick") == ["e-1", "e-2", "e-3"]
    assert await _listed(desk, "step=send") == ["e-4"]
    assert await _listed(desk, f"step=send&{copied}") == []


async def test_tasks_under_way_are_found_by_the_running_step(desk: Desk) -> None:
    """No index contains it, so each task is read."""
    for task in ("r-1", "r-2"):
        await desk.submit(task)
        await desk.run(task)
    await desk.end("pick", "r-2")
    assert await _listed(desk, "state=Processing&step=pick") == ["r-1"]
    assert await _listed(desk, "under_way=true&step=send") == ["r-2"]


async def test_search_in_tasks_is_bounded_and_continues(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer says how far back it has searched."""
    monkeypatch.setattr(task_list, "MOST_PER_PAGE", 5)
    await desk.in_error("sought")
    await desk.act("undo", "sought")
    names = [f"d-{number:03}" for number in range(25)]
    for name in names:
        desk.clock.advance(1)
        await desk.processed(name)
    first = (await desk.get("/tasks?submitter=tester&step=send")).json
    assert (first["tasks"], first["looked_to"]) == ([], desk.at(6))
    query = f"submitter=tester&step=send&cursor={first['cursor']}"
    last = (await desk.get(f"/tasks?{query}")).json
    assert ([task["id"] for task in last["tasks"]], last["cursor"]) == (["sought"], None)


# Groups of errors


async def test_tasks_that_failed_for_one_cause_are_one_group(desk: Desk) -> None:
    """The largest group is first. Its filter lists its tasks and no others."""
    await desk.in_error("other")
    await _refused(desk, "e-9", "drone answered 422")
    for number in range(3):
        desk.clock.advance(10)
        await _refused(desk, f"e-{number}", f"drone answered 503 ({number})")
    before = desk.table.reads
    answer = (await desk.get("/errors")).json
    assert desk.table.reads - before == SHARDS
    assert [(group["count"], group["error"]) for group in answer["groups"]] == [
        (3, "pick: drone answered 503 (…)"),
        (1, "pick: drone answered 422"),
        (1, "send: no money"),
    ]
    first = answer["groups"][0]
    seen = (first["workflow"], first["version"], first["step"], first["example"])
    assert seen == ("line", 1, "pick", "e-2")
    assert (first["first_at"], first["last_at"], answer["looked_to"]) == (desk.at(10), desk.at(30), None)
    for group in answer["groups"]:
        assert len(await _listed(desk, urlencode(group["filter"]))) == group["count"]
    for query, groups in {"workflow=line&version=1": 3, "version=2": 0, "workflow=trip": 0}.items():
        assert len((await desk.get(f"/errors?{query}")).json["groups"]) == groups


async def test_groups_of_more_tasks_than_a_request_reads_continue(desk: Desk) -> None:
    """Each task is in the groups of one answer."""
    for number in range(4_000):
        _put(
            desk, TaskIndex.ERROR, f"t-{number}", number, "Error", ErrorClass="pick: late", FailedStep="pick"
        )
    counts, before = list[int](), ""
    while not counts or before:
        answer = (await desk.get(f"/errors{before}")).json
        counts.append(sum(group["count"] for group in answer["groups"]))
        before = "" if answer["looked_to"] is None else f"?before={answer['looked_to']}"
    assert (sum(counts), len(counts)) == (4_000, 2)


# Corrupt rows, and queries without a meaning


@pytest.mark.parametrize(("path", "shown"), [("/errors", "groups"), ("/tasks", "tasks")])
async def test_corrupt_index_row_is_named(desk: Desk, path: str, shown: str) -> None:
    """It hides no other row."""
    await desk.in_error()
    key = next(iter(desk.table.keys("!error|"))) + "x"
    desk.table.write("000", [RowChange("upsert", key, {"OrderID": "x"})])
    answer = (await desk.get(path)).json
    assert [row["key"] for row in answer["corrupt"]] == [key]
    assert len(answer[shown]) == 1


async def test_index_row_whose_time_has_no_zone_hides_no_other(desk: Desk) -> None:
    """Neither in a list nor in a count."""
    for task in ("p-1", "p-2"):
        await desk.submit(task)
    for (_, key), row in desk.table.rows.items():
        if key.startswith("!due|") and key.endswith("|p-1"):
            row["SubmittedAt"] = "2026-11-21T12:00:00"
    assert "p-2" in await _listed(desk, "under_way=true")
    assert (await desk.get("/count?under_way=true&max_age=99")).status == 200


async def test_corrupt_task_is_named(desk: Desk) -> None:
    """Its page is 500 and names the row."""
    await desk.in_error()
    await desk.in_error("e-2")
    desk.table.rows[shard_of(TASK, SHARDS), f"{TASK}|step|send"]["Do"] = "{"
    page = (await desk.get("/tasks")).json
    assert ([task["id"] for task in page["tasks"]], len(page["corrupt"])) == (["e-2"], 1)
    answer = await desk.get(f"/tasks/{TASK}")
    assert (answer.status, f"row {TASK}|step|send" in answer.json["detail"]) == (500, True)


@pytest.mark.parametrize(
    "query",
    [
        "tasks?state=Lost",
        "tasks?order=best",
        "tasks?min_age=-1",
        "tasks?max_age=nan",
        "tasks?workflow=A",
        "tasks?shard=1",
        "tasks?step=send.3",
        "tasks?error=",
        f"tasks?error={'x' * 257}",
        f"tasks?submitter={'x' * 101}",
        "tasks?correlation_id=",
        f"tasks?find={'x' * 101}",
        "errors?before=2026-11-21T10:00:00",
        "errors?before=0001-01-01T00:00:00Z",
        "errors?before=9999-12-31T23:59:59Z",
    ],
)
async def test_wrong_query_is_rejected(desk: Desk, query: str) -> None:
    """The field is named. A time needs a zone."""
    assert wrong_fields(await desk.get(f"/{query}")) == [query.split("?")[1].split("=", maxsplit=1)[0]]


@pytest.mark.parametrize(
    "query", ["state=Error&suspended=true", "suspended=true&under_way=true", "state=Processed&under_way=true"]
)
async def test_query_that_no_task_matches_is_rejected(desk: Desk, query: str) -> None:
    """An action would otherwise reach other tasks."""
    field = query.rsplit("&", maxsplit=1)[-1].partition("=")[0]
    for path in ("tasks", "count"):
        assert wrong_fields(await desk.get(f"/{path}?{query}")) == [field]
