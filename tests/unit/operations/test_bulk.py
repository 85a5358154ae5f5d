"""One action on all tasks that a filter selects: each task once, also after a failure."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.operations.tasks import bulk as bulk_actions
from functions.pattern.definition import Registry
from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.events import Event
from functions.pattern.identity import StepName, TaskId
from functions.pattern.refusals import Refused
from functions.pattern.search_keys import search_key
from functions.pattern.states import EpochEnd, ProcessState, StepState
from functions.pattern.store_ports import Changed, Stored
from functions.store.keys import sortable
from tests.fakes.clock import START
from tests.fakes.interventions import giving_up
from tests.fakes.tasks import SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, TASK, awaiting, step, workflow
from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk, in_error, processed

RESUBMIT: Mapping[str, Any] = {"filter": {"state": "Error"}, "action": "resubmit", "reason": "it is back"}


async def _counted(desk: Desk, query: str = "") -> Any:
    answer = await desk.get(f"/count{query}")
    assert answer.status == 200, answer.body
    return answer.json


async def _all(desk: Desk, body: Mapping[str, Any]) -> list[Any]:
    """Ask for page after page."""
    pages: list[Any] = []
    while not pages or pages[-1]["cursor"] is not None:
        cursor = {"cursor": pages[-1]["cursor"]} if pages else {}
        answer = await desk.post("/tasks/actions", {**body, **cursor})
        assert answer.status == 200, answer.body
        pages.append(answer.json)
    return pages


def _ids(pages: list[Any], what: str = "done") -> list[str]:
    return [each["id"] for page in pages for each in page[what]]


def _now(desk: Desk) -> str:
    return desk.clock.now().isoformat()


async def test_all_that_a_filter_selects_are_acted_on_once(desk: Desk) -> None:
    """Over all shards, page by page, while they leave the index; others are left alone."""
    names = [f"e-{number}" for number in range(130)]
    desk.holds(*map(in_error, names), processed("done"), pending(LINE, TaskId("new")))
    counted = await _counted(desk, "?state=Error")
    assert (counted["count"], counted["more"], counted["exact"]) == (130, False, True)
    pages = await _all(desk, {**RESUBMIT, "before": counted["at"]})
    assert sorted(_ids(pages)) == sorted(names)
    assert max(len(page["done"]) for page in pages) == 50
    assert {desk.store.record(TaskId(task)).task.process_state for task in names} == {ProcessState.PENDING}
    assert (await _counted(desk, "?state=Error"))["count"] == 0


async def test_each_task_keeps_who_did_it_and_why(desk: Desk) -> None:
    """As if it had been acted on alone."""
    desk.holds(in_error("e-1"), in_error("e-2"))
    await _all(desk, {**RESUBMIT, "before": _now(desk)})
    for task in ("e-1", "e-2"):
        [closed] = desk.store.record(TaskId(task)).history
        assert (closed.ended_by, closed.who, closed.reason) == (
            EpochEnd.RESUBMITTED,
            "operator",
            "it is back",
        )


async def test_begun_again_it_acts_on_nothing_twice(desk: Desk) -> None:
    """What has failed again since the count has begun another epoch: it would be resubmitted for ever."""
    desk.holds(in_error("e-1"), in_error("e-2"))
    at = _now(desk)
    assert len(_ids(await _all(desk, {**RESUBMIT, "before": at}))) == 2
    desk.clock.advance(5)
    name = TaskId("e-1")
    sending = started("send", SECOND, task=name, complete_by=90)
    held = told(desk.store.record(name), claimed(SECOND, task=name), now=desk.clock.now())
    desk.holds(told(held, sending, failed("send", SECOND, task=name), now=desk.clock.now()))
    [page] = await _all(desk, {**RESUBMIT, "before": at})
    assert (page["done"], page["refused"]) == ([], [])
    assert _ids(await _all(desk, {**RESUBMIT, "before": _now(desk)})) == ["e-1"]


async def test_cancelled_tasks_are_not_cancelled_again_where_they_have_come_to(desk: Desk) -> None:
    """A selection in any state reads the index of what has ended last."""
    names = [f"c-{number}" for number in range(60)]
    desk.holds(*(pending(LINE, TaskId(name)) for name in names[:30]), *map(in_error, names[30:]))
    body = {**RESUBMIT, "filter": {"prefix": "c-"}, "action": "cancel", "before": _now(desk)}
    desk.clock.advance(1)
    pages = await _all(desk, body)
    assert sorted(_ids(pages)) == sorted(names)
    assert _ids(pages, "refused") == []


async def test_task_that_ends_while_it_is_looked_at_is_not_cancelled(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that run were meant; what was processed would be undone."""
    running, change = told(pending(LINE), claimed(), started("pick")), desk.store.change
    desk.holds(running)

    async def change_later(task: TaskId, event: Event, *, read: Stored | None = None) -> Changed | Refused:
        rest = (completed("pick"), started("send"), completed("send"))
        desk.holds(told(running, *rest, now=desk.clock.now()))
        return await change(task, event, read=read)

    monkeypatch.setattr(desk.store, "change", change_later)
    body = {**RESUBMIT, "filter": {"state": "Processing"}, "action": "cancel", "before": _now(desk)}
    [page] = await _all(desk, body)
    assert _ids([page], "refused") == [TASK]
    assert desk.store.record(TASK).task.process_state is ProcessState.PROCESSED


async def test_refusal_is_told_for_its_task_and_keeps_no_other_from_going_on(desk: Desk) -> None:
    """With the reason that the action alone would give, whatever is wrong with the task."""
    desk.holds(in_error("e-1"), processed("e-2"), in_error("e-3"))
    desk.store.damaged.add(TaskId("e-3"))
    body = {**RESUBMIT, "filter": {"prefix": "e-"}, "before": _now(desk)}
    [page] = await _all(desk, body)
    assert [each["id"] for each in page["done"]] == ["e-1"]
    assert page["refused"] == [
        {"id": "e-2", "reason": "The task is not in Error, and takes this only there."}
    ]
    assert (len(page["unreadable"]), page["passed_over"]) == (1, 0)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (TransientError("down"), "No answer in time: it may have been done all the same."),
        (RuntimeError("a secret"), "Something went wrong here. Name reference "),
    ],
)
async def test_failure_is_told_for_its_task(desk: Desk, failure: Exception, reason: str) -> None:
    """Without internals; the others are done."""
    desk.holds(in_error("e-1"), in_error("e-2"))
    desk.store.faults[TaskId("e-1")] = failure
    [page] = await _all(desk, {**RESUBMIT, "before": _now(desk)})
    [not_done] = page["refused"]
    assert not_done["id"] == "e-1"
    assert not_done["reason"].startswith(reason)
    assert [each["id"] for each in page["done"]] == ["e-2"]


async def test_page_ends_in_time_whatever_hangs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for its turn behind what hangs is told as not known, too."""
    desk.holds(*(in_error(f"e-{number}") for number in range(40)))
    monkeypatch.setattr(bulk_actions, "_TASK_SECONDS", 0.05)
    monkeypatch.setattr(desk.store, "change", lambda *_, **__: asyncio.Event().wait())
    [page] = await _all(desk, {**RESUBMIT, "before": _now(desk)})
    assert len(page["refused"]) == 40


async def test_ages_are_as_of_the_count(desk: Desk) -> None:
    """What was old enough then is meant, however long it takes; what came since then is not."""
    desk.holds(in_error("e-1"))
    desk.clock.advance(50)
    at = _now(desk)
    body = {**RESUBMIT, "filter": {"state": "Error", "max_age": 60}, "before": at}
    desk.clock.advance(600)
    later = in_error("e-2")
    desk.holds(replace(later, task=replace(later.task, finished_at=desk.clock.now())))
    assert _ids(await _all(desk, body)) == ["e-1"]


async def test_empty_shards_and_refused_rows_end_a_page_in_bounded_reads(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can have no task, and a cursor."""
    monkeypatch.setattr(bulk_actions, "_MOST_READS", 1)
    desk.holds(*(in_error(f"e-{number}") for number in range(3)))
    pages = await _all(desk, {**RESUBMIT, "before": _now(desk)})
    assert (len(pages), len(_ids(pages))) == (desk.index.shards, 3)
    before = desk.index.requests
    [*_, last] = await _all(desk, {**RESUBMIT, "before": _now(desk)})
    assert desk.index.requests - before == desk.index.shards
    assert last["cursor"] is None


async def test_parked_tasks_are_selected_by_whoever_parked_them(desk: Desk) -> None:
    """All are parked; only operators' are unparked."""
    desk.holds(*(pending(LINE, TaskId(f"p-{number}")) for number in range(3)))
    body = {**RESUBMIT, "filter": {"state": "Pending"}, "action": "park", "before": _now(desk)}
    assert len(_ids(await _all(desk, body))) == 3
    desk.clock.advance(1)
    assert (await _counted(desk, "?parked=true"))["count"] == 3
    body = {**body, "filter": {"parked": "true"}, "action": "unpark", "before": _now(desk)}
    assert len(_ids(await _all(desk, body))) == 3
    assert (await _counted(desk, "?parked=true"))["count"] == 0


_PAYING = workflow(step("pay", idempotent=False), step("send", "pay"), name="paying")
_APPROVAL = workflow(awaiting("approve"), name="approval", resource="approvals")


@pytest.mark.parametrize(
    ("action", "given", "name", "state", "ended_by"),
    [
        ("undo", {}, "send", StepState.FAILED, EpochEnd.UNDO_REQUESTED),
        ("skip", {"step": "send", "result": {}}, "send", StepState.COMPLETED, EpochEnd.RESULT_GIVEN),
        ("done", {"step": "pay", "result": {}}, "pay", StepState.COMPLETED, EpochEnd.FOUND_DONE),
        ("not-done", {"step": "pay"}, "pay", StepState.NOT_STARTED, EpochEnd.FOUND_NOT_DONE),
        ("event", {"step": "approve", "body": {"approved": True}}, "approve", StepState.COMPLETED, None),
    ],
)
async def test_each_task_takes_the_action_with_its_step_and_content(
    action: str, given: Mapping[str, Any], name: str, state: StepState, ended_by: EpochEnd | None
) -> None:
    """Each selected task records the action as a single action would; an event ends no epoch."""
    desk = Desk(registry=Registry((LINE, _PAYING, _APPROVAL), {}))
    for task in map(TaskId, ("e-1", "e-2")):
        paid = told(pending(_PAYING, task), claimed(task=task), started("pay", task=task))
        asked = started("approve", task=task, complete_by=3600)
        records = {
            "send": in_error(task),
            "pay": told(paid, giving_up(hold=True), now=after(60)),
            "approve": told(pending(_APPROVAL, task), claimed(task=task), asked),
        }
        desk.holds(records[name])
    desk.clock.advance(60)
    body = {**RESUBMIT, "filter": {"prefix": "e-"}, "action": action, "before": _now(desk), **given}
    assert sorted(_ids(await _all(desk, body))) == ["e-1", "e-2"]
    for task in map(TaskId, ("e-1", "e-2")):
        record = desk.store.record(task)
        assert record.step(StepName(name)).state is state
        assert [each.ended_by for each in record.history] == ([] if ended_by is None else [ended_by])


async def test_tasks_of_a_text_and_of_a_cause_are_selected(desk: Desk) -> None:
    """By the same filter that lists them."""
    found = in_error("e-1")
    by_text = replace(found, order=replace(found.order, search_keys=(search_key("weight 3"),)))
    desk.holds(by_text, in_error("e-2"))
    assert await _counted(desk, "?find=weight 3") == {
        "count": 1,
        "more": False,
        "exact": True,
        "at": _now(desk).replace("+00:00", "Z"),
    }
    for asked in ({"find": "weight 3"}, {"step": "send", "error": "send: no money", "prefix": "e-1"}):
        desk.holds(by_text, in_error("e-2"))
        body = {**RESUBMIT, "filter": asked, "before": _now(desk)}
        assert _ids(await _all(desk, body)) == ["e-1"]


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ("?state=Error&step=send", True),
        ("?state=Processed", True),
        ("?parked=true", True),
        ("?state=Processed&step=send", False),
        ("?state=Pending", False),
        ("?prefix=e", False),
    ],
)
async def test_count_says_whether_the_index_tells_all(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    exact: bool,  # noqa: FBT001 - a parameter
) -> None:
    """If it does not, and they are many, some may turn out not to be meant."""
    monkeypatch.setattr(bulk_actions, "_PAGES_LOOKED_AT", 0)
    assert (await _counted(desk, query))["exact"] is exact


async def test_few_are_counted_by_themselves(desk: Desk) -> None:
    """The index tells ids and not states; only so many are read."""
    desk.holds(*(in_error(f"e-{number}") for number in range(60)), processed("e-99"))
    assert (await _counted(desk, "?prefix=e-&state=Error"))["count"] == 60
    desk.holds(*(in_error(f"e-{number}") for number in range(300)))
    counted = await _counted(desk, "?prefix=e-&state=Error")
    assert (counted["count"], counted["exact"]) == (300, False)


async def test_count_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that there are more; the action goes on to all of them."""
    monkeypatch.setattr(bulk_actions, "_MOST_ROWS_COUNTED", 8)
    monkeypatch.setattr(bulk_actions, "ROWS_PER_REQUEST", 2)
    desk.holds(*(in_error(f"e-{number}") for number in range(40)))
    counted = await _counted(desk)
    assert (counted["count"], counted["more"]) == (8, True)
    assert len(_ids(await _all(desk, {**RESUBMIT, "before": counted["at"]}))) == 40


async def test_store_that_does_not_answer_is_told(desk: Desk) -> None:
    """Whoever asked goes on from the same cursor later."""
    desk.index.failure = TransientError("down")
    problem(await desk.post("/tasks/actions", {**RESUBMIT, "before": _now(desk)}), 503)
    problem(await desk.get("/count"), 503)


async def test_damaged_index_rows_are_named(desk: Desk) -> None:
    """They hide no others."""
    desk.index.damaged.append(UnreadableError(f"!error|{sortable(after(0))}|x", "no time"))
    desk.holds(in_error("e-1"))
    [page] = await _all(desk, {**RESUBMIT, "before": _now(desk)})
    assert (len(page["done"]), len(page["unreadable"])) == (1, 1)


WHOLE: Mapping[str, Any] = {
    "filter": {"state": "Error"},
    "action": "resubmit",
    "reason": "it is back",
    "before": START.isoformat(),
}


async def _cursor(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> str:
    """Ask for a first page, which has one task."""
    monkeypatch.setattr(bulk_actions, "MOST_PER_PAGE", 1)
    desk.holds(in_error("e-1"), in_error("e-2"), in_error("e-3"))
    answer = await desk.post("/tasks/actions", WHOLE)
    return str(answer.json["cursor"])


@pytest.mark.parametrize(
    "changed",
    [{"filter": {"prefix": "e-"}}, {"before": (START - timedelta(seconds=1)).isoformat()}],
    ids=["filter", "time"],
)
async def test_cursor_counts_for_its_own_selection_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    """In another, it would leave out what lies before it."""
    cursor = await _cursor(desk, monkeypatch)
    asked = {**WHOLE, **changed, "cursor": cursor}
    assert wrong_fields(await desk.post("/tasks/actions", asked)) == ["cursor"]


@pytest.mark.parametrize("forged", [{"shard": 99}, {"source": 9}, {"after": "no"}, {"of": -1}])
async def test_forged_cursor_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, forged: dict[str, Any]
) -> None:
    """Of a shard, a source or a place that there is not."""
    place = json.loads(urlsafe_b64decode(await _cursor(desk, monkeypatch) + "=="))
    cursor = urlsafe_b64encode(json.dumps(place | forged).encode()).decode()
    assert wrong_fields(await desk.post("/tasks/actions", {**WHOLE, "cursor": cursor})) == ["cursor"]


@pytest.mark.parametrize("cursor", ["", "abc", "é", "e30"])
async def test_what_is_no_cursor_is_refused(desk: Desk, cursor: str) -> None:
    """Whatever it is."""
    assert wrong_fields(await desk.post("/tasks/actions", {**WHOLE, "cursor": cursor})) == ["cursor"]


@pytest.mark.parametrize(("minutes", "fields"), [(4, []), (6, ["before"])])
async def test_time_to_come_is_refused(desk: Desk, minutes: int, fields: list[str]) -> None:
    """Nothing would tell what has been acted on; but clocks of two hosts may differ."""
    desk.holds(in_error())
    before = (desk.clock.now() + timedelta(minutes=minutes)).isoformat()
    answer = await desk.post("/tasks/actions", {**WHOLE, "before": before})
    assert (wrong_fields(answer) if fields else []) == fields
    assert (desk.store.record(TASK).task.process_state is ProcessState.ERROR) is bool(fields)


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"action": "skip"}, ["step", "result"]),
        ({"action": "done", "step": "send"}, ["result"]),
        ({"action": "event", "step": "send", "result": {}}, ["result", "body"]),
        ({"step": "send"}, ["step"]),
        ({"action": "delete"}, ["action"]),
        ({"reason": " "}, ["reason"]),
        ({"before": "yesterday"}, ["before"]),
        ({"filter": {"cursor": "x"}}, ["filter.cursor"]),
        ({"filter": {"state": "Lost"}}, ["filter.state"]),
        ({"filter": {"state": "Error", "parked": True}}, ["filter.parked"]),
        ({"filter": {}}, ["filter"]),
    ],
)
async def test_action_that_is_not_whole_is_refused(
    desk: Desk, changed: dict[str, Any], fields: list[str]
) -> None:
    """422 names what is missing, and what is too much; nothing is done."""
    desk.holds(in_error())
    body = {**WHOLE, **changed}
    assert wrong_fields(await desk.post("/tasks/actions", body)) == fields
    assert desk.store.writes == 1
