"""What can't be meant by an action on all that a filter selects: it is refused, and nothing is done."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from functions.operations.tasks import bulk as selection
from functions.pattern.states import ProcessState
from tests.fakes.clock import START
from tests.fakes.workflows import TASK
from tests.unit.api.samples import wrong_fields
from tests.unit.operations.conftest import Desk, in_error

RESUBMIT: Mapping[str, Any] = {
    "filter": {"state": "Error"},
    "action": "resubmit",
    "reason": "it is back",
    "before": START.isoformat(),
}


async def _cursor(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> str:
    """Ask for a first page, which has one task."""
    monkeypatch.setattr(selection, "MOST_PER_PAGE", 1)
    desk.holds(in_error("e-1"), in_error("e-2"), in_error("e-3"))
    answer = await desk.post("/tasks/actions", RESUBMIT)
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
    asked = {**RESUBMIT, **changed, "cursor": cursor}
    assert wrong_fields(await desk.post("/tasks/actions", asked)) == ["cursor"]


@pytest.mark.parametrize("forged", [{"shard": 99}, {"source": 9}, {"after": "no"}, {"of": -1}])
async def test_forged_cursor_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, forged: dict[str, Any]
) -> None:
    """Of a shard, a source or a place that there is not."""
    place = json.loads(urlsafe_b64decode(await _cursor(desk, monkeypatch) + "=="))
    cursor = urlsafe_b64encode(json.dumps(place | forged).encode()).decode()
    assert wrong_fields(await desk.post("/tasks/actions", {**RESUBMIT, "cursor": cursor})) == ["cursor"]


@pytest.mark.parametrize("cursor", ["", "abc", "é", "e30"])
async def test_what_is_no_cursor_is_refused(desk: Desk, cursor: str) -> None:
    """Whatever it is."""
    assert wrong_fields(await desk.post("/tasks/actions", {**RESUBMIT, "cursor": cursor})) == ["cursor"]


@pytest.mark.parametrize(("minutes", "fields"), [(4, []), (6, ["before"])])
async def test_time_to_come_is_refused(desk: Desk, minutes: int, fields: list[str]) -> None:
    """Nothing would tell what has been acted on; but clocks of two hosts may differ."""
    desk.holds(in_error())
    before = (desk.clock.now() + timedelta(minutes=minutes)).isoformat()
    answer = await desk.post("/tasks/actions", {**RESUBMIT, "before": before})
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
    body = {**RESUBMIT, **changed}
    assert wrong_fields(await desk.post("/tasks/actions", body)) == fields
    assert desk.store.writes == 1
