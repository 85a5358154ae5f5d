"""Tasks are found by what an operator knows of them, and the answer says how far back it has looked."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from functions.operations.tasks import listing
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.search_keys import search_key
from tests.fakes.clock import START
from tests.fakes.tasks import after, claimed, failed, pending, started, told
from tests.fakes.workflows import LINE
from tests.unit.api.samples import wrong_fields
from tests.unit.operations.conftest import Desk, in_error, processed


async def _listed(desk: Desk, query: str) -> list[str]:
    answer = await desk.get(f"/tasks?{query}")
    assert answer.status == 200, answer.body
    return [task["id"] for task in answer.json["tasks"]]


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
    listed, cursor = [], ""
    while True:
        page = (await desk.get(f"/tasks?find=ada{cursor}")).json
        listed += [task["id"] for task in page["tasks"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert listed == names[::-1]


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
    monkeypatch.setattr(listing, "_MOST_AT_ONCE", 60)
    desk.holds(*(_ended(f"e-{number}", number) for number in range(100)))
    cursor = (await desk.get("/tasks?prefix=e-")).json["cursor"]
    desk.holds(*(_ended(f"e-{number}", number) for number in range(100, 200)))
    assert wrong_fields(await desk.get(f"/tasks?prefix=e-&cursor={cursor}")) == ["cursor"]


@pytest.mark.parametrize(
    "query",
    [
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
async def test_filter_that_can_not_be_meant_is_refused(desk: Desk, query: str) -> None:
    """The field is named."""
    [field] = wrong_fields(await desk.get(f"/tasks?{query}"))
    assert query.split("=", maxsplit=1)[0] in field
