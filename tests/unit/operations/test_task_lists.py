"""Lists of tasks by state, age, text and cause, page by page in the order of time."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from functions.operations.tasks import listing
from functions.operations.tasks.listing import Listing
from functions.operations.tasks.query import ListQuery, Sorting
from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.search_keys import search_key
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from tests.fakes.clock import START
from tests.fakes.tasks import after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, TASK
from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk, in_error, processed

AT = START.isoformat()


async def _listed(desk: Desk, query: str = "") -> list[str]:
    answer = await desk.get(f"/tasks?{query}")
    assert answer.status == 200, answer.body
    return [task["id"] for task in answer.json["tasks"]]


async def _all_pages(desk: Desk, query: str) -> list[list[str]]:
    pages, cursor = [], ""
    while True:
        page = (await desk.get(f"/tasks?{query}{cursor}")).json
        pages.append([task["id"] for task in page["tasks"]])
        if page["cursor"] is None:
            return pages
        cursor = f"&cursor={page['cursor']}"


def _cursor(**fields: object) -> str:
    return urlsafe_b64encode(json.dumps(fields).encode()).decode()


def _entries(count: int, state: ProcessState) -> list[IndexEntry]:
    """Make entries of one state, a second apart."""
    return [
        IndexEntry(TaskId(f"t-{number}"), after(number), "line", state, after(number), 1, "ada")
        for number in range(count)
    ]


def _failed_at(seconds: float, task: str) -> TaskRecord:
    name = TaskId(task)
    running = told(
        pending(LINE, name),
        claimed(task=name),
        started("pick", task=name),
        completed("pick", task=name),
        started("send", task=name, complete_by=10_000_000),
    )
    return told(running, failed("send", task=name), now=after(seconds))


def _submitted_at(seconds: float, task: str) -> TaskRecord:
    record = processed(task)
    return replace(record, order=replace(record.order, submitted_at=after(seconds)))


async def test_tasks_in_error_are_listed_first_of_all(desk: Desk) -> None:
    """They wait for the operator; the line says what went wrong."""
    desk.holds(in_error("e-1"), pending(LINE, TaskId("p-1")), processed("d-1"))
    assert await _listed(desk) == ["e-1"]
    [line] = (await desk.get("/tasks")).json["tasks"]
    assert (line["state"], line["last_error"], line["epoch"]) == ("Error", "send: no money", 1)
    assert (line["due_at"], line["workflow"]) == (None, "line")


async def test_each_state_has_its_own_list(desk: Desk) -> None:
    """What the index entry does not tell, the task does."""
    running = told(pending(LINE, TaskId("r-1")), claimed(task=TaskId("r-1")))
    desk.holds(in_error("e-1"), running, pending(LINE, TaskId("p-1")), processed("d-1"))
    for state, task in (("Pending", "p-1"), ("Processing", "r-1"), ("Processed", "d-1"), ("Error", "e-1")):
        assert await _listed(desk, f"state={state}") == [task]
    assert await _listed(desk, "state=Compensated") == []
    assert sorted(await _listed(desk, "under_way=true")) == ["p-1", "r-1"]


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("apart", [0.001, 60, 7_200], ids=["crowded", "by the minute", "scattered"])
async def test_long_lists_are_complete_and_in_order(desk: Desk, order: str, apart: float) -> None:
    """More entries than one request reads, however they lie in time."""
    names = [f"e-{number:04}" for number in range(450)]
    desk.holds(*(_failed_at(number * apart, name) for number, name in enumerate(names)))
    desk.clock.advance(450 * apart)
    pages = await _all_pages(desk, f"order={order}")
    listed = [name for page in pages for name in page]
    assert listed == (names if order == "oldest" else names[::-1])
    assert len(pages) < 40
    assert max(map(len, pages)) == 50


async def test_tasks_of_one_moment_are_all_listed(desk: Desk) -> None:
    """By their ids, whichever way the list goes."""
    names = [f"e-{number:03}" for number in range(130)]
    desk.holds(*map(in_error, names))
    for order in ("newest", "oldest"):
        listed = [name for page in await _all_pages(desk, f"order={order}") for name in page]
        assert listed == names


async def test_list_asks_the_index_only_so_often_for_one_page(desk: Desk) -> None:
    """A state that is rare in a large index gives an empty page, and the list goes on."""
    desk.index.wrong[Index.DONE] = _entries(6_000, ProcessState.PROCESSED)
    desk.clock.advance(6_000)
    page = (await desk.get("/tasks?state=Compensated")).json
    assert (page["tasks"], desk.index.requests) == ([], 8 * desk.index.shards)
    assert page["cursor"] is not None


async def test_more_than_one_reading_of_the_oldest_is_said(desk: Desk) -> None:
    """What ended is indexed latest first: the oldest of very many are found by a greater age."""
    ended = _entries(2_500, ProcessState.PROCESSED)
    desk.index.wrong[Index.DONE] = ended
    desk.clock.advance(2_500)
    query = ListQuery(state=ProcessState.PROCESSED, order=Sorting.OLDEST)
    assert (await Listing(desk.ports).page(query)).more
    assert desk.index.requests == desk.index.shards
    found = await Listing(desk.ports).page(query.model_copy(update={"min_age": 1_500}))
    assert (found.more, found.items) == (False, tuple(ended[:50]))


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("max_age=50", ["e-90", "e-50"]),
        ("min_age=50", ["e-50", "e-10"]),
        ("min_age=20&max_age=60", ["e-50"]),
        ("workflow=line", ["e-90", "e-50", "e-10"]),
        ("workflow=diamond", []),
    ],
)
async def test_list_is_narrowed_by_age_and_workflow(desk: Desk, query: str, listed: list[str]) -> None:
    """The age of what ended counts from its end."""
    desk.holds(*(_failed_at(seconds, f"e-{seconds}") for seconds in (10, 50, 90)))
    desk.clock.advance(100)
    assert await _listed(desk, query) == listed
    assert await _listed(desk, f"{query}&order=oldest") == listed[::-1]


@pytest.mark.parametrize("asked", ["state=Pending", "under_way=true"])
@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_tasks_under_way_are_listed_by_their_submission(desk: Desk, order: str, asked: str) -> None:
    """When they are due, which is what their index goes by, is nobody's order; pages of 50 all the same."""
    names = [f"p-{number:03}" for number in range(60)]
    for number, name in enumerate(names):
        record = pending(LINE, TaskId(name))
        submission = replace(record.order, submitted_at=after(number))
        desk.holds(replace(record, order=submission, task=replace(record.task, due_at=after(600 - number))))
    pages = await _all_pages(desk, f"{asked}&order={order}")
    assert [len(page) for page in pages] == [50, 10]
    listed = [name for page in pages for name in page]
    assert listed == (names if order == "oldest" else names[::-1])


async def test_more_under_way_than_a_request_reads_is_told_of(desk: Desk) -> None:
    """No cursor leads to those that are due later."""
    desk.index.wrong[Index.DUE] = _entries(2_500, ProcessState.PENDING)
    page = (await desk.get("/tasks?state=Pending")).json
    assert (page["more"], desk.index.requests) == (True, desk.index.shards)


async def test_newest_of_very_many_are_found_at_once(desk: Desk) -> None:
    """They come first in their index: one request for each shard."""
    ended = _entries(20_000, ProcessState.PROCESSED)
    desk.index.wrong[Index.DONE] = ended
    desk.clock.advance(20_000)
    found = await Listing(desk.ports).page(ListQuery(state=ProcessState.PROCESSED))
    assert found.items == tuple(ended[:-51:-1])
    assert desk.index.requests == desk.index.shards


async def test_age_of_a_task_under_way_counts_from_its_submission(desk: Desk) -> None:
    """It is due in the future, which says nothing of its age."""
    desk.holds(pending(LINE, TaskId("p-1")))
    desk.clock.advance(20)
    assert await _listed(desk, "state=Pending&min_age=20") == ["p-1"]
    assert await _listed(desk, "state=Pending&min_age=21") == []
    assert await _listed(desk, "state=Pending&max_age=19") == []


async def test_tasks_are_found_by_the_beginning_of_their_ids(desk: Desk) -> None:
    """In any state unless one is named; one request for each shard."""
    desk.holds(in_error("order-2"), processed("order-1"), in_error("other"))
    assert await _listed(desk, "prefix=order-") == ["order-1", "order-2"]
    assert desk.index.requests == desk.index.shards
    assert await _listed(desk, "prefix=order-&state=Error") == ["order-2"]
    assert await _listed(desk, "prefix=order-&workflow=diamond") == []


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_tasks_under_a_beginning_come_page_by_page(desk: Desk, order: str) -> None:
    """In the order of their submission, whatever their ids are."""
    names = [f"d-{number * 7 % 60:03}" for number in range(60)]
    desk.holds(*(_submitted_at(number, name) for number, name in enumerate(names)))
    desk.clock.advance(60)
    pages = await _all_pages(desk, f"prefix=d-&order={order}")
    assert [len(page) for page in pages] == [50, 10]
    listed = [name for page in pages for name in page]
    assert listed == (names if order == "oldest" else names[::-1])


async def test_beginning_of_very_many_ids_is_looked_for_by_time(desk: Desk) -> None:
    """The newest are found in the indexes, which go by time; a longer beginning finds the oldest."""
    names = [f"d-{number:04}" for number in range(2_500)]
    desk.holds(*(_failed_at(number, name) for number, name in enumerate(names)), pending(LINE, TaskId("d-x")))
    desk.clock.advance(2_500)
    first = (await desk.get("/tasks?prefix=d-")).json
    assert [task["id"] for task in first["tasks"]] == names[:-51:-1]
    assert first["looked_to"] == after(2_450).isoformat().replace("+00:00", "Z")
    following = await _listed(desk, f"prefix=d-&cursor={first['cursor']}")
    assert following == names[-51:-101:-1]
    assert await _listed(desk, "prefix=d-000") == names[:10]


async def test_task_of_just_that_name_comes_first(desk: Desk) -> None:
    """However many there are whose ids begin with it."""
    desk.holds(*(processed(f"d-1{number:03}") for number in range(200)), processed("d-1"))
    assert (await _listed(desk, "prefix=d-1"))[:2] == ["d-1", "d-1000"]


async def test_entry_that_leads_nowhere_is_left_out(desk: Desk) -> None:
    """Entries are hints: one task is gone, the other was resubmitted meanwhile."""
    desk.holds(pending(LINE, TASK))
    desk.index.wrong[Index.ERROR] = [
        IndexEntry(TaskId(name), START, "line", ProcessState.ERROR, START, 1, "ada")
        for name in ("gone", TASK)
    ]
    assert await _listed(desk) == []


@pytest.mark.parametrize(
    "cursor",
    [
        "!",
        "abc",
        "x" * 513,
        _cursor(state="Error", sorting="newest", at="soon", task="e-1"),
        _cursor(state="Error", sorting="newest", at="2026-11-21T10:00:00", task="e-1"),
        _cursor(state="Error", sorting="newest", at=AT, task="e|1"),
        _cursor(state="Error", sorting="oldest", at=AT, task="e-1"),
        _cursor(state="Processed", sorting="newest", at=AT, task="e-1"),
        _cursor(state="Error", sorting="newest", at=AT, shard=1),
        _cursor(state="Error", sorting="newest", at=AT),
        _cursor(state="Error", sorting="newest", at="0001-01-01T00:00:00+14:00", task="e-1"),
        _cursor(state="Error", sorting="newest", at="9999-12-31T23:59:59-14:00", task="e-1"),
    ],
)
async def test_cursor_that_is_not_ours_is_refused(desk: Desk, cursor: str) -> None:
    """Whether it can't be read, is another list's, or leads to no place."""
    assert "cursor" in wrong_fields(await desk.get(f"/tasks?cursor={cursor}"))[0]


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1999-01-01T00:00:00Z"]
)
@pytest.mark.parametrize("sorting", ["newest", "oldest"])
async def test_cursor_at_the_ends_of_time_does_no_harm(desk: Desk, at: str, sorting: str) -> None:
    """It leads to a list, or to an empty one."""
    desk.holds(in_error())
    cursor = _cursor(state="Error", sorting=sorting, at=at, task="e-1")
    assert await _listed(desk, f"order={sorting}&cursor={cursor}") in ([], [TASK])


async def test_store_that_does_not_answer_is_said(desk: Desk) -> None:
    """503, and nothing of the inside."""
    desk.holds(in_error())
    desk.store.failure = TransientError("Table Storage: ServiceRequestError")
    problem(await desk.get("/tasks"), 503)


def _by(record: TaskRecord, *, at: datetime = START, **fields: Any) -> TaskRecord:
    """Change what an order tells of who sent it."""
    return replace(record, order=replace(record.order, submitted_at=at, **fields))


def _running(task: str, step: str) -> TaskRecord:
    name = TaskId(task)
    return told(pending(LINE, name), claimed(task=name), started(step, task=name))


def _refused(task: str, error: str) -> TaskRecord:
    name = TaskId(task)
    return told(_running(task, "pick"), failed("pick", task=name, error=error))


@pytest.mark.parametrize("query", ["submitter=ada", "correlation_id=c-9"])
async def test_tasks_of_any_state_are_found_by_whose_they_are(desk: Desk, query: str) -> None:
    """The newest first, whether ended or under way; a state and a workflow narrow it."""
    whose: dict[str, Any] = {"submitter": "ada", "correlation_id": "c-9"}
    desk.holds(
        _by(in_error("e-1"), **whose),
        _by(processed("d-1"), **whose),
        _by(pending(LINE, TaskId("p-1")), at=after(5), **whose),
        _by(pending(LINE, TaskId("p-2"))),
        processed("d-2"),
    )
    desk.clock.advance(10)
    assert await _listed(desk, query) == ["p-1", "d-1", "e-1"]
    assert await _listed(desk, f"{query}&order=oldest") == ["d-1", "e-1", "p-1"]
    assert await _listed(desk, f"{query}&state=Error") == ["e-1"]
    assert await _listed(desk, f"{query}&workflow=diamond") == []
    assert await _listed(desk, f"{query}x") == []


async def test_tasks_are_found_by_a_text_of_their_own(desk: Desk) -> None:
    """The latest submitted first, in any state, however the text is typed; all other filters apply."""
    ada = (search_key("ada@example.com"),)
    desk.holds(
        _by(in_error("e-1"), at=after(1), search_keys=ada),
        _by(pending(LINE, TaskId("p-1")), at=after(3), search_keys=(*ada, search_key("C-4711"))),
        _by(processed("d-1"), at=after(2), search_keys=ada),
        processed("d-2"),
    )
    desk.clock.advance(10)
    assert await _listed(desk, "find=Ada@example.com") == ["p-1", "d-1", "e-1"]
    assert desk.index.requests == desk.index.shards
    assert await _listed(desk, "find=ada@example.com&order=oldest") == ["e-1", "d-1", "p-1"]
    assert await _listed(desk, "find=ada@example.com&state=Error") == ["e-1"]
    assert await _listed(desk, "find=ada@example.com&prefix=d") == ["d-1"]
    assert await _listed(desk, "find=ada@example.com&max_age=8") == ["p-1"]
    assert await _listed(desk, "find=c-4711") == ["p-1"]
    assert await _listed(desk, "find=nobody") == []


async def test_tasks_of_one_text_come_page_by_page(desk: Desk) -> None:
    """Each once, over all shards."""
    key = (search_key("ada"),)
    names = [f"t-{number:03}" for number in range(120)]
    desk.holds(*(_by(processed(name), at=after(at), search_keys=key) for at, name in enumerate(names)))
    desk.clock.advance(200)
    pages = await _all_pages(desk, "find=ada")
    assert [name for page in pages for name in page] == names[::-1]


async def test_tasks_in_error_are_found_by_step_and_class_of_error(desk: Desk) -> None:
    """By any error of the class, as it may be copied from a task; only what is shown is read."""
    desk.holds(
        _refused("e-1", "pick answered 503 (request 17)"),
        _refused("e-2", "pick answered 503 (request 18)"),
        _refused("e-3", "pick answered 422"),
        in_error("e-4"),
    )
    copied = "error=pick: pick answered 503 (request 99)"
    assert await _listed(desk, copied) == ["e-1", "e-2"]
    assert await _listed(desk, "step=pick") == ["e-1", "e-2", "e-3"]
    assert await _listed(desk, "step=send") == ["e-4"]
    assert await _listed(desk, f"step=send&{copied}") == []
    assert await _listed(desk, "step=nothing") == []


async def test_tasks_under_way_are_found_by_the_step_that_runs(desk: Desk) -> None:
    """No index tells it: each task is looked at."""
    other = told(pending(LINE, TaskId("r-2")), claimed(task=TaskId("r-2")))
    desk.holds(_running("r-1", "pick"), other)
    assert await _listed(desk, "state=Processing&step=pick") == ["r-1"]
    assert await _listed(desk, "state=Processing&step=send") == []


async def test_what_no_index_tells_is_looked_for_in_so_many_tasks_for_a_request(desk: Desk) -> None:
    """Then the answer says how far back it has looked, and its cursor goes on."""
    names = [f"d-{number:03}" for number in range(330)]
    desk.holds(
        _ended("sought", 0, "send: no money"), *(_ended(name, at + 1) for at, name in enumerate(names))
    )
    desk.clock.advance(400)
    first = (await desk.get("/tasks?state=Processed&step=send")).json
    assert first["tasks"] == []
    assert first["looked_to"] == after(131).isoformat().replace("+00:00", "Z")
    last = (await desk.get(f"/tasks?state=Processed&step=send&cursor={first['cursor']}")).json
    assert [task["id"] for task in last["tasks"]] == ["sought"]
    assert (last["cursor"], last["looked_to"]) == (None, None)


def _ended(task: str, seconds: float, error: str | None = None) -> TaskRecord:
    record = processed(task)
    return replace(record, task=replace(record.task, finished_at=after(seconds), last_error=error))


async def test_cursor_of_another_source_is_refused(desk: Desk) -> None:
    """A list by time has no place among what a text finds."""
    desk.holds(*(in_error(f"e-{number:03}") for number in range(60)))
    cursor = (await desk.get("/tasks?submitter=tester")).json["cursor"]
    assert wrong_fields(await desk.get(f"/tasks?find=ada&cursor={cursor}")) == ["cursor"]


async def test_list_of_ids_that_becomes_too_long_is_begun_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next page would go by other times, and leave tasks out."""
    monkeypatch.setattr(listing, "ROWS_PER_REQUEST", 60)
    desk.holds(*(_ended(f"e-{number}", number) for number in range(100)))
    cursor = (await desk.get("/tasks?prefix=e-")).json["cursor"]
    desk.holds(*(_ended(f"e-{number}", number) for number in range(100, 200)))
    assert wrong_fields(await desk.get(f"/tasks?prefix=e-&cursor={cursor}")) == ["cursor"]


def _at(seconds: float) -> str:
    return after(seconds).isoformat().replace("+00:00", "Z")


def _refused_at(task: str, at: float, error: str) -> TaskRecord:
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
        *(_refused_at(f"e-{number}", 10 + number, f"drone answered 503 ({number})") for number in range(3)),
        _refused_at("e-9", 5, "drone answered 422"),
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
        _refused_at("e-1", 1, "drone answered 503 (1)"),
        _refused_at("e-2", 2, "drone answered 503 (2)"),
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


@pytest.mark.parametrize(
    "query",
    [
        "state=Lost",
        "order=best",
        "min_age=-1",
        "max_age=nan",
        "prefix=a|b",
        "workflow=A",
        "shard=1",
        "step=A",
        "error=",
        f"error={'x' * 257}",
        "submitter=",
        f"submitter={'x' * 101}",
        "correlation_id=",
        f"correlation_id={'x' * 129}",
        "find=",
        f"find={'x' * 101}",
    ],
)
async def test_query_that_can_not_be_meant_is_refused(desk: Desk, query: str) -> None:
    """The field is named."""
    [field] = wrong_fields(await desk.get(f"/tasks?{query}"))
    assert query.split("=", maxsplit=1)[0] in field


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("step=send.3", "name the step without the item's number: send"),
        ("state=Error&parked=true", "a parked task is Pending, and not Error"),
        ("state=Processing&parked=true", "a parked task is Pending, and not Processing"),
        ("parked=true&under_way=true", "what is parked, in Error or has ended is not under way"),
        ("state=Processed&under_way=true", "what is parked, in Error or has ended is not under way"),
    ],
)
async def test_query_that_no_task_fits_is_refused_with_the_reason(
    desk: Desk, query: str, reason: str
) -> None:
    """One of two states was passed over, and a list, a count or an action was of the other's tasks."""
    field = query.rsplit("&", maxsplit=1)[-1].partition("=")[0]
    for path in ("tasks", "count"):
        [fault] = problem(await desk.get(f"/{path}?{query}"), 422)["errors"]
        assert fault == {"field": field, "reason": f"Value error, {reason}"}


@pytest.mark.parametrize("query", ["state=Pending&parked=true", "state=Processing&under_way=true"])
async def test_states_that_go_together_are_taken(desk: Desk, query: str) -> None:
    """Each narrows the other."""
    assert (await desk.get(f"/tasks?{query}")).status == 200
