"""Lists of tasks out of the indexes: bounded, in the order of time over all shards, page by page."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import replace

import pytest

from functions.operations.tasks.listing import Listing
from functions.operations.tasks.query import ListQuery, Sorting
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from tests.fakes.clock import START
from tests.fakes.tasks import after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, TASK
from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk, in_error, processed

AT = START.isoformat()


async def _listed(desk: Desk, query: str = "") -> list[str]:
    answer = await desk.get(f"/tasks{query}")
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
        assert await _listed(desk, f"?state={state}") == [task]
    assert await _listed(desk, "?state=Compensated") == []
    assert sorted(await _listed(desk, "?under_way=true")) == ["p-1", "r-1"]


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_pages_follow_each_other_in_the_order_of_time(desk: Desk, order: str) -> None:
    """At most 50 tasks at a time, each once, whatever shard they are in."""
    names = [f"e-{number:03}" for number in range(120)]
    desk.holds(*(_failed_at(number, name) for number, name in enumerate(names)))
    desk.clock.advance(200)
    pages = await _all_pages(desk, f"order={order}")
    assert [len(page) for page in pages] == [50, 50, 20]
    listed = [name for page in pages for name in page]
    assert listed == (names if order == "oldest" else names[::-1])


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
    assert await _listed(desk, f"?{query}") == listed
    assert await _listed(desk, f"?{query}&order=oldest") == listed[::-1]


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
    assert await _listed(desk, "?state=Pending&min_age=20") == ["p-1"]
    assert await _listed(desk, "?state=Pending&min_age=21") == []
    assert await _listed(desk, "?state=Pending&max_age=19") == []


async def test_tasks_are_found_by_the_beginning_of_their_ids(desk: Desk) -> None:
    """In any state unless one is named; one request for each shard."""
    desk.holds(in_error("order-2"), processed("order-1"), in_error("other"))
    assert await _listed(desk, "?prefix=order-") == ["order-1", "order-2"]
    assert desk.index.requests == desk.index.shards
    assert await _listed(desk, "?prefix=order-&state=Error") == ["order-2"]
    assert await _listed(desk, "?prefix=order-&workflow=diamond") == []


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
    following = await _listed(desk, f"?prefix=d-&cursor={first['cursor']}")
    assert following == names[-51:-101:-1]
    assert await _listed(desk, "?prefix=d-000") == names[:10]


async def test_task_of_just_that_name_comes_first(desk: Desk) -> None:
    """However many there are whose ids begin with it."""
    desk.holds(*(processed(f"d-1{number:03}") for number in range(200)), processed("d-1"))
    assert (await _listed(desk, "?prefix=d-1"))[:2] == ["d-1", "d-1000"]


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
    assert await _listed(desk, f"?order={sorting}&cursor={cursor}") in ([], [TASK])


async def test_store_that_does_not_answer_is_said(desk: Desk) -> None:
    """503, and nothing of the inside."""
    desk.holds(in_error())
    desk.store.failure = TransientError("Table Storage: ServiceRequestError")
    problem(await desk.get("/tasks"), 503)
