"""One action on all tasks that a filter selects: each task once, also after an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from functions.core.definition.step_definition import EventStep, Step
from functions.core.definition.workflow_definition import Workflow
from functions.core.derive import ProcessState, derive
from functions.core.record import EpochEnd, TaskRecord
from functions.core.task_events import EventReceived, Suspended
from functions.operators import bulk_actions
from functions.storage.row_keys import shard_of
from functions.storage.table_contract import RowChange, TransientStorageError
from tests.fakes.clock import START
from tests.unit.api.scene import problem, wrong_fields
from tests.unit.operators.conftest import BOOKING, SHARDS, TASK, Approval, Desk, Parcel, request

RESUBMIT: Mapping[str, Any] = {"filter": {"state": "Error"}, "action": "resubmit", "reason": "it is back"}


async def _counted(desk: Desk, query: str = "") -> Any:
    answer = await desk.get(f"/count{query}")
    assert answer.status == 200, answer.body
    return answer.json


async def _all(desk: Desk, **body: Any) -> list[Any]:
    """Request page after page."""
    pages: list[Any] = []
    body = {"before": desk.clock.now().isoformat(), **RESUBMIT, **body}
    while not pages or pages[-1]["cursor"] is not None:
        cursor = {"cursor": pages[-1]["cursor"]} if pages else {}
        answer = await desk.post("/tasks/actions", {**body, **cursor})
        assert answer.status == 200, answer.body
        pages.append(answer.json)
    return pages


def _ids(pages: list[Any], outcome: str = "done") -> list[str]:
    return sorted(each["id"] for page in pages for each in page[outcome])


async def test_each_selected_task_is_changed_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all shards, page by page, while the tasks leave the index; others are left alone."""
    monkeypatch.setattr(bulk_actions, "MOST_PER_PAGE", 10)
    names = [f"e-{number:02}" for number in range(40)]
    for name in names:
        await desk.in_error(name)
    await desk.processed("done")
    counted = await _counted(desk, "?state=Error")
    assert (counted["count"], counted["more"], counted["exact"]) == (40, False, True)
    pages = await _all(desk, before=counted["at"])
    assert _ids(pages) == names
    assert max(len(page["done"]) for page in pages) == 10
    for name in names:
        [closed] = await desk.epochs(name)
        assert (closed.end, closed.who, closed.reason) == (EpochEnd.RESUBMITTED, "operator", "it is back")
    assert (await _counted(desk, "?state=Error"))["count"] == 0


async def test_task_that_resumes_between_two_pages_is_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is due earlier then, so its index row moves back."""
    monkeypatch.setattr(bulk_actions, "MOST_PER_PAGE", 1)
    wait = EventStep("wait", event=Approval, complete_within=3600)
    flow = Workflow("waiting", payload=Parcel, steps=[wait, Step("send", request=request, needs=[wait])])
    desk, names = Desk(flow), {"w-1", "w-2"}  # in one shard
    for name in sorted(names):
        await desk.submit(name, flow)
        await desk.run(name)
        if stored := await desk.storage.read(name):
            await desk.storage.move_index(stored)
    body = {**RESUBMIT, "filter": {"under_way": True}, "action": "suspend", "before": desk.at(0)}
    pages: list[Any] = []
    cursor: dict[str, Any] = {}
    while not pages or pages[-1]["cursor"] is not None:
        pages.append((await desk.post("/tasks/actions", {**body, **cursor})).json)
        cursor = {"cursor": pages[-1]["cursor"]}
        if len(_ids(pages)) == 1:
            [other] = names - set(_ids(pages))
            await desk.change(EventReceived(step="wait", body='{"approved":true}', who="boss"), other)
    assert set(_ids(pages)) == names


@pytest.mark.parametrize("seconds", [5, -1.5], ids=["later", "on a host whose clock is behind"])
async def test_interrupted_action_that_starts_again_changes_no_task_twice(desk: Desk, seconds: float) -> None:
    """A task that failed again since the count is left out, and would be resubmitted for ever."""
    for name in ("e-1", "e-2"):
        await desk.in_error(name)
    at = desk.at(0)
    desk.clock.advance(1)
    assert _ids(await _all(desk, before=at)) == ["e-1", "e-2"]
    desk.clock.advance(seconds)
    await desk.run("e-1")
    await desk.end("send", "e-1", error="again")
    desk.clock.advance(60)
    [page] = await _all(desk, before=at)
    assert (page["done"], page["rejected"]) == ([], [])
    assert _ids(await _all(desk)) == ["e-1"]


async def test_cancelled_tasks_are_not_cancelled_again(desk: Desk) -> None:
    """Another operator has resubmitted one since the count. The index of ended tasks is read, too."""
    names = sorted(f"c-{number}" for number in range(60))
    for number, name in enumerate(names):
        await (desk.in_error(name) if number % 2 else desk.submit(name))
    before = desk.at(0)
    desk.clock.advance(1)
    await desk.act("resubmit", names.pop(1))
    pages = await _all(desk, filter={"submitter": "tester"}, action="cancel", before=before)
    assert (_ids(pages), _ids(pages, "rejected")) == (names, [])


async def test_fault_concerns_its_task_only(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is that of the single action, with nothing of the inside. A corrupt task is named."""
    faults = {
        "e-2": (TransientStorageError("down"), "The storage did not answer in time."),
        "e-3": (RuntimeError("a secret"), "An unexpected error occurred. Its log entry has "),
    }
    for name in ("e-1", "e-2", "e-3", "e-4"):
        await desk.in_error(name)
    await desk.processed("e-5")
    desk.table.rows[shard_of("e-4", SHARDS), "e-4|task"]["Facts"] = "{"
    change = desk.storage.change

    async def change_some(task: str, *event: Any, **options: Any) -> Any:
        if task in faults:
            raise faults[task][0]
        return await change(task, *event, **options)

    monkeypatch.setattr(desk.storage, "change", change_some)
    [page] = await _all(desk, filter={"submitter": "tester"})
    assert (_ids([page]), page["passed_over"]) == (["e-1"], 0)
    reasons = {each["id"]: each["reason"] for each in page["rejected"]}
    assert reasons.pop("e-5") == "The task is not in Error. This action applies only there."
    assert reasons.keys() == faults.keys()
    assert all(reasons[task].startswith(text) for task, (_, text) in faults.items())
    assert [row["key"] for row in page["corrupt"]] == ["e-4|task"]


async def test_page_ends_in_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that wait behind those that hang have all of their time."""
    for number in range(20):
        await desk.in_error(f"e-{number}")
    hang = (asyncio.Event().wait() for _ in range(16))
    change = Mock(wraps=desk.storage.change, side_effect=[*hang, *[DEFAULT] * 4])
    monkeypatch.setattr(bulk_actions, "_TASK_SECONDS", 1)
    monkeypatch.setattr(desk.storage, "change", change)
    [page] = await _all(desk)
    assert (len(page["rejected"]), len(page["done"])) == (16, 4)


async def test_ages_are_as_of_the_count(desk: Desk) -> None:
    """A task that ended later is left out."""
    await desk.in_error("e-1")
    desk.clock.advance(50)
    before = desk.at(50)
    desk.clock.advance(600)
    await desk.in_error("e-2")
    assert _ids(await _all(desk, filter={"state": "Error", "max_age": 60}, before=before)) == ["e-1"]


async def test_page_has_a_bounded_number_of_reads(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have no task, and a cursor."""
    monkeypatch.setattr(bulk_actions, "_MOST_READS", 1)
    for number in range(4):
        await desk.in_error(f"e-{number}")
    pages = await _all(desk)
    assert (len(pages), len(_ids(pages))) == (SHARDS, 4)


async def test_suspended_tasks_are_selected_and_resumed(desk: Desk) -> None:
    """A request that is repeated acts on no task that was resumed or suspended since then."""
    for number in range(3):
        await desk.submit(f"p-{number}")
    suspend = {"filter": {"under_way": True}, "action": "suspend", "before": desk.at(0)}
    assert len(_ids(await _all(desk, **suspend))) == 3
    assert (await _counted(desk, "?suspended=true"))["count"] == 3
    resume = {"filter": {"suspended": True}, "action": "resume", "before": desk.at(0)}
    desk.clock.advance(5)
    assert len(_ids(await _all(desk, **resume))) == 3
    assert (await _counted(desk, "?suspended=true"))["count"] == 0
    assert _ids(await _all(desk, **suspend)) == []
    desk.clock.advance(5)
    await desk.act("suspend", "p-1")
    assert _ids(await _all(desk, **resume)) == []
    assert (await desk.record("p-1")).suspension is not None
    cancel = {"filter": {"suspended": True}, "action": "cancel", "before": desk.at(10)}
    desk.clock.advance(5)
    await desk.change(Suspended(reason="its version is not deployed"), "p-2")
    assert _ids(await _all(desk, **cancel)) == ["p-1"]


async def test_action_is_taken_with_its_step_and_content(desk: Desk) -> None:
    """Each task records it as a single action."""
    for task in ("e-1", "e-2"):
        await desk.in_error(task)
        await desk.submit(f"b-{task}", BOOKING)
    pages = await _all(desk, action="skip", step="send", result={"by": "hand"})
    assert _ids(pages) == ["e-1", "e-2"]
    given: dict[str, Any] = {"step": "approve", "body": {"approved": True}}
    pages = await _all(desk, filter={"workflow": "booking", "state": "Pending"}, action="event", **given)
    assert _ids(pages) == ["b-e-1", "b-e-2"]
    for task in ("e-1", "e-2"):
        assert (await desk.record(task)).do("send").result == '{"by":"hand"}'
        assert (await desk.record(f"b-{task}")).step("approve").event == '{"approved":true}'


async def test_tasks_of_a_text_and_of_a_cause_are_selected(desk: Desk) -> None:
    """By the same filter that lists them."""
    await desk.in_error("e-1", texts=["weight 3"])
    await desk.in_error("e-2")
    counted = await _counted(desk, "?find=weight 3")
    assert counted == {"count": 1, "more": False, "exact": True, "at": desk.at(0)}
    assert (await _counted(desk, "?step=send&error=send: no money"))["count"] == 2
    assert _ids(await _all(desk, filter={"find": "weight 3"})) == ["e-1"]
    assert _ids(await _all(desk, filter={"step": "send", "error": "send: no money"})) == ["e-2"]


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ("?state=Error&step=send", True),
        ("?state=Processed", True),
        ("?suspended=true", True),
        ("?state=Processed&step=send", False),
        ("?state=Pending", False),
        ("?submitter=tester", False),
    ],
)
async def test_count_says_whether_the_index_decides(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, query: str, *, exact: bool
) -> None:
    """If it does not, and the tasks are many, some may not match."""
    monkeypatch.setattr(bulk_actions, "_MOST_READ_FOR_COUNT", -1)
    assert (await _counted(desk, query))["exact"] is exact


async def test_few_tasks_are_read_for_a_count(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of search texts have no state."""
    for number in range(5):
        await desk.in_error(f"e-{number}", texts=["ada"])
    await desk.processed("e-9", texts=["ada"])
    assert (await _counted(desk, "?find=ada&state=Error"))["count"] == 5
    monkeypatch.setattr(bulk_actions, "_MOST_READ_FOR_COUNT", -1)
    counted = await _counted(desk, "?find=ada&state=Error")
    assert (counted["count"], counted["exact"]) == (6, False)


async def test_count_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The action reaches all tasks."""
    monkeypatch.setattr(bulk_actions, "ROWS_PER_REQUEST", 2)
    for number in range(20):
        await desk.in_error(f"e-{number}")
    counted = await _counted(desk)
    assert (counted["count"], counted["more"]) == (2 * SHARDS, True)
    assert len(_ids(await _all(desk))) == 20


async def test_storage_that_does_not_answer_is_503(desk: Desk) -> None:
    """The caller continues at the same cursor later."""
    desk.table.read_fault = lambda: True
    problem(await desk.post("/tasks/actions", {**RESUBMIT, "before": desk.at(0)}), 503)
    problem(await desk.get("/count"), 503)


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"reason": None}, ["reason"]),
        ({"action": "remove"}, ["action"]),
        ({"filter": {}}, ["filter"]),
        ({"filter": {"state": "Lost"}}, ["filter.state"]),
        ({"action": "done"}, ["step", "result"]),
        ({"action": "leave"}, ["step"]),
        ({"action": "event", "step": "approve", "result": {}}, ["result", "body"]),
        ({"step": "send"}, ["step"]),
        ({"epoch": 1}, ["epoch"]),
        ({"before": (START + timedelta(minutes=1)).isoformat()}, ["before"]),
        ({"before": "2026-11-21T10:00:00"}, ["before"]),
        ({"cursor": "e30"}, ["cursor"]),
        ({"cursor": "!"}, ["cursor"]),
    ],
)
async def test_wrong_request_is_rejected(desk: Desk, changed: Mapping[str, Any], fields: list[str]) -> None:
    """The fields are named, and no task changes."""
    await desk.in_error()
    before = await desk.record()
    body = {**RESUBMIT, "before": desk.at(0), **changed}
    assert wrong_fields(await desk.post("/tasks/actions", body)) == fields
    assert await desk.record() == before


async def test_cursor_of_another_selection_is_rejected(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would begin in the middle."""
    monkeypatch.setattr(bulk_actions, "MOST_PER_PAGE", 1)
    for name in ("e-1", "e-2", "e-3"):
        await desk.in_error(name)
    body = {**RESUBMIT, "before": desk.at(0)}
    cursor = (await desk.post("/tasks/actions", body)).json["cursor"]
    for other in ({"filter": {"state": "Processed"}}, {"before": desk.at(-1)}):
        answer = await desk.post("/tasks/actions", {**body, "cursor": cursor, **other})
        assert wrong_fields(answer) == ["cursor"]


async def test_processed_tasks_are_not_selected_as_failed(desk: Desk) -> None:
    """A task that leaves the state between index and action is passed over."""
    record: TaskRecord = await desk.in_error()
    assert derive(record).state is ProcessState.ERROR
    rows = {key: dict(row) for key, row in desk.table.rows.items() if key[1].startswith("!error")}
    await desk.act("steps/send/skip", TASK, result={})
    [((shard, key), row)] = rows.items()
    desk.table.write(shard, [RowChange("upsert", key, row)])
    [page] = await _all(desk)
    assert (page["done"], page["rejected"], page["passed_over"]) == ([], [], 1)
