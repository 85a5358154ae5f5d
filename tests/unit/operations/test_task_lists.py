"""Lists of tasks: by state, out of the indexes, page by page."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Index, IndexEntry
from functions.pattern.states import ProcessState
from tests.fakes.clock import START
from tests.fakes.tasks import claimed, pending, told
from tests.fakes.workflows import LINE, TASK
from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk, in_error, processed


async def _listed(desk: Desk, query: str = "") -> list[str]:
    answer = await desk.get(f"/tasks{query}")
    assert answer.status == 200, answer.body
    assert answer.json["cursor"] is None
    return sorted(task["id"] for task in answer.json["tasks"])


def _cursor(**content: Any) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).decode()


async def test_tasks_in_error_are_listed_first_of_all(desk: Desk) -> None:
    """They wait for the operator; the line says what went wrong."""
    desk.holds(in_error("e-1"), in_error("e-2"), pending(LINE, TaskId("p-1")), processed("d-1"))
    assert await _listed(desk) == ["e-1", "e-2"]
    [line, _] = (await desk.get("/tasks")).json["tasks"]
    assert (line["state"], line["last_error"], line["epoch"]) == ("Error", "send: no money", 1)
    assert (line["due_at"], line["workflow"]) == (None, "line")


async def test_each_state_has_its_own_list(desk: Desk) -> None:
    """What the index entry does not tell, the task does."""
    running = told(pending(LINE, TaskId("r-1")), claimed(task=TaskId("r-1")))
    desk.holds(in_error("e-1"), running, pending(LINE, TaskId("p-1")), processed("d-1"))
    assert await _listed(desk, "?state=Pending") == ["p-1"]
    assert await _listed(desk, "?state=Processing") == ["r-1"]
    assert await _listed(desk, "?state=Processed") == ["d-1"]
    assert await _listed(desk, "?state=Compensated") == []
    assert await _listed(desk, "?state=Error") == ["e-1"]


async def test_list_goes_on_where_its_page_ended(desk: Desk) -> None:
    """At most 50 tasks at a time, each once, over all shards."""
    names = [f"e-{number}" for number in range(120)]
    desk.holds(*map(in_error, names))
    seen: list[str] = []
    query = ""
    sizes = []
    while True:
        page = (await desk.get(f"/tasks{query}")).json
        seen += [task["id"] for task in page["tasks"]]
        sizes.append(len(page["tasks"]))
        if page["cursor"] is None:
            break
        query = f"?cursor={page['cursor']}"
    assert sorted(seen) == sorted(names)
    assert sizes[:-1] == [50, 50]


async def test_list_asks_the_index_only_so_often_for_one_page(desk: Desk) -> None:
    """A state that is rare in a large index gives an empty page, and the list goes on."""
    desk.index.wrong[Index.DONE] = [
        IndexEntry(TaskId(f"d-{number}"), START, "line", ProcessState.PROCESSED) for number in range(3_300)
    ]
    page = (await desk.get("/tasks?state=Compensated")).json
    assert (page["tasks"], desk.index.requests) == ([], 64)
    assert page["cursor"] is not None


async def test_entry_that_leads_nowhere_is_left_out(desk: Desk) -> None:
    """Entries are hints: one task is gone, the other was resubmitted meanwhile."""
    desk.holds(pending(LINE, TASK))
    desk.index.wrong[Index.ERROR] = [
        IndexEntry(TaskId(name), START, "line", ProcessState.ERROR) for name in ("gone", TASK)
    ]
    assert await _listed(desk) == []


@pytest.mark.parametrize(
    "cursor",
    [
        "!",
        "abc",
        "x" * 2049,
        _cursor(state="Error", shard=2),
        _cursor(state="Error", shard=-1),
        _cursor(state="Processed", shard=0),
        _cursor(state="Error", shard=0, after="elsewhere"),
    ],
)
async def test_cursor_that_is_not_ours_is_refused(desk: Desk, cursor: str) -> None:
    """Whether it can't be read, is another list's, or leads to no place."""
    assert wrong_fields(await desk.get(f"/tasks?cursor={cursor}")) == ["cursor"]


async def test_unknown_state_is_refused(desk: Desk) -> None:
    """The field is named."""
    assert wrong_fields(await desk.get("/tasks?state=Lost")) == ["state"]


async def test_store_that_does_not_answer_is_said(desk: Desk) -> None:
    """503, and nothing of the inside."""
    desk.holds(in_error())
    desk.store.failure = TransientError("Table Storage: ServiceRequestError")
    problem(await desk.get("/tasks"), 503)
