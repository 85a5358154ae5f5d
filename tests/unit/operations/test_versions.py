"""Operators see which tasks are parked and why, and which version of a workflow is still needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from functions.pattern.identity import TaskId, scheduler_id
from functions.pattern.records import TaskRecord
from tests.fakes.tasks import FIRST, claimed, pending, told
from tests.fakes.workflows import DIAMOND, LINE
from tests.unit.operations.conftest import Desk, in_error, processed
from tests.unit.pattern.test_parking import REASON, parking


def _parked(name: str, version: int = 1) -> TaskRecord:
    task = TaskId(name)
    record = told(pending(replace(LINE, version=version), task), claimed(task=task))
    return told(record, replace(parking(record), scheduler=scheduler_id(task, FIRST)))


async def _listed(desk: Desk, query: str) -> list[str]:
    return [line["id"] for line in (await desk.get(f"/tasks?{query}")).json["tasks"]]


async def test_parked_task_is_shown_with_its_reason(desk: Desk) -> None:
    """It is not due: no time is awaited."""
    desk.holds(_parked("p-1"))
    shown = (await desk.get("/tasks/p-1")).json
    assert (shown["parked"], shown["state"], shown["due_at"]) == (True, "Pending", None)
    assert (shown["last_error"], shown["workflow_version"]) == (REASON, 1)
    assert shown["birth"] == "0a1b2c3d"


async def test_parked_tasks_have_a_list_of_their_own(desk: Desk) -> None:
    """They are not among those that wait for their Scheduler."""
    desk.holds(_parked("p-1"), _parked("p-2", version=2), pending(LINE, TaskId("w-1")), in_error("e-1"))
    assert sorted(await _listed(desk, "parked=true")) == ["p-1", "p-2"]
    assert await _listed(desk, "parked=true&version=2") == ["p-2"]
    assert await _listed(desk, "parked=true&prefix=p-") == ["p-1", "p-2"]
    assert await _listed(desk, "parked=true&prefix=w-") == []
    assert await _listed(desk, "prefix=p-&version=2") == ["p-2"]
    assert await _listed(desk, "state=Pending") == ["w-1"]


async def test_versions_are_counted_by_what_still_needs_them(desk: Desk) -> None:
    """What is deployed and needed by none can be dropped; what is needed and not deployed must come back."""
    desk.holds(
        _parked("p-1", version=2),
        _parked("p-2", version=2),
        pending(LINE, TaskId("w-1")),
        in_error("e-1"),
        processed("d-1"),
        pending(DIAMOND, TaskId("w-2")),
    )
    overview = (await desk.get("/overview")).json
    assert overview["versions"] == [
        _line("diamond", 1, deployed=False, under_way=1),
        _line("line", 1, deployed=True, under_way=1, in_error=1),
        _line("line", 2, deployed=False, parked=2),
    ]
    assert (overview["parked"], overview["under_way"]["count"]) == ({"count": 2, "more": False}, 2)
    assert [(each["workflow"], each["parked"]) for each in overview["workflows"]] == [
        ("diamond", 0),
        ("line", 2),
    ]


async def test_version_that_nobody_needs_is_counted_as_none(desk: Desk) -> None:
    """That is what a deployment without it waits for."""
    desk.holds(processed("d-1"))
    assert (await desk.get("/overview")).json["versions"] == [_line("line", 1, deployed=True)]


def _line(workflow: str, version: int, *, deployed: bool, **counts: int) -> dict[str, Any]:
    nothing = {"under_way": 0, "parked": 0, "in_error": 0}
    return {"workflow": workflow, "version": version, "deployed": deployed, **nothing, **counts}
