"""What happened over an hour, a day and a month, and where it is hot now."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions.pattern.identity import StepName
from functions.pattern.states import Direction
from functions.pattern.trends import StepTrend, Trend, TrendKey
from tests.fakes.clock import START
from tests.fakes.trends import NO_STORE, attempts, trend_of
from tests.unit.api.samples import problem
from tests.unit.operations.conftest import Desk

_MINUTE = START.replace(second=0, microsecond=0)


def put(desk: Desk, trend: Trend, *, workflow: str = "line", **ago: float) -> None:
    """Let this have happened some time ago."""
    rows = desk.trends.rows
    rows[TrendKey(workflow, _MINUTE - timedelta(**ago), f"row-{len(rows)}")] = trend


async def _trends(desk: Desk, query: str) -> Any:
    return (await desk.get(f"/trends?{query}")).json


@pytest.mark.parametrize(
    ("over", "points", "step"),
    [("hour", 60, timedelta(minutes=1)), ("day", 24, timedelta(hours=1)), ("month", 30, timedelta(days=1))],
)
async def test_time_is_shown_point_by_point(desk: Desk, over: str, points: int, step: timedelta) -> None:
    """The last point still runs; what happened before the first is not counted."""
    for number in (0, 1, points - 1, points):
        put(desk, trend_of(accepted=number + 1), seconds=number * step.total_seconds())
    shown = await _trends(desk, f"over={over}")
    accepted = [point["accepted"] for point in shown["points"]]
    assert (len(accepted), accepted[-2:], accepted[0]) == (points, [2, 1], points)
    assert shown["workflows"][0]["accepted"] == 3 + points


async def test_workflows_and_steps_are_shown_with_percentiles(desk: Desk) -> None:
    """Of all rows of the time; within 10 %."""
    put(desk, trend_of(accepted=3, processed=2, took=2, pick=attempts(4, took=0.5)), minutes=5)
    put(desk, trend_of(processed=1, error=1, took=2, pick=attempts(1, 2, took=0.5)), minutes=50)
    put(desk, trend_of(accepted=1), workflow="trip")
    [line, trip] = (await _trends(desk, "over=hour"))["workflows"]
    assert [line[name] for name in ("accepted", "processed", "error", "recovered")] == [3, 3, 1, 0]
    assert (line["p50"], line["p99"]) == (pytest.approx(2, rel=0.1), pytest.approx(2, rel=0.1))
    [pick] = line["steps"]
    assert pick | {"p50": None, "p99": None} == {
        "step": "pick", "direction": "do", "completed": 5, "failed": 2, "expired": 0, "p50": None, "p99": None
    }  # fmt: skip
    assert pick["p50"] == pytest.approx(0.5, rel=0.1)
    assert (trip["accepted"], trip["p50"], trip["steps"]) == (1, None, [])


async def test_points_can_be_of_one_workflow(desk: Desk) -> None:
    """The others stay in the list, to be chosen."""
    put(desk, trend_of(accepted=3))
    put(desk, trend_of(accepted=1), workflow="trip")
    shown = await _trends(desk, "over=hour&workflow=trip")
    assert shown["points"][-1]["accepted"] == 1
    assert [each["workflow"] for each in shown["workflows"]] == ["line", "trip"]


async def test_many_who_look_are_one_reading(desk: Desk) -> None:
    """The last hour, the last day and the heat come out of the same rows."""
    for path in ("/trends?over=hour", "/trends?over=day", "/trends?over=day&workflow=line", "/heat"):
        assert (await desk.get(path)).status == 200
    assert desk.trends.reads == 1
    desk.clock.advance(15)
    await desk.get("/heat")
    assert desk.trends.reads == 2


@pytest.mark.parametrize("path", ["/trends?over=month", "/heat"])
async def test_store_that_does_not_answer_is_said(desk: Desk, path: str) -> None:
    """It is no quiet day."""
    desk.trends.failure = NO_STORE
    problem(await desk.get(path), 503)


async def test_other_times_are_refused(desk: Desk) -> None:
    """There are three."""
    problem(await desk.get("/trends?over=year"), 422)


async def _heat(desk: Desk) -> dict[str, Any]:
    [line] = (await desk.get("/heat")).json["workflows"]
    assert line["needs"] == {"pick": [], "send": ["pick"]}
    return {step["step"]: step for step in line["steps"]}


@pytest.mark.parametrize(
    ("recent", "heat"),
    [
        (attempts(4), "quiet"),
        (attempts(5), "as usual"),
        (attempts(5, took=1.6), "as usual"),
        (attempts(5, took=2.6), "slow"),
        (attempts(8, 1), "as usual"),
        (attempts(8, 2), "failing"),
        (attempts(8, 2, took=30), "failing"),
    ],
)
async def test_step_is_hot_when_it_fails_or_is_slower_than_usual(
    desk: Desk, recent: StepTrend, heat: str
) -> None:
    """The last ten minutes beside the last day, from five attempts on."""
    put(desk, trend_of(pick=attempts(100, took=1)), hours=5)
    put(desk, trend_of(pick=recent), minutes=10)
    steps = await _heat(desk)
    assert (steps["pick"]["heat"], steps["send"]["heat"]) == (heat, "quiet")
    assert (steps["pick"]["ended"], steps["pick"]["failed"]) == (recent.ended, recent.bad)


async def test_what_is_over_is_not_hot(desk: Desk) -> None:
    """An outage of an hour ago is in the trends, not on the graph."""
    put(desk, trend_of(pick=attempts(0, 100)), minutes=11)
    assert (await _heat(desk))["pick"]["heat"] == "quiet"


async def test_undo_that_fails_is_as_hot_as_a_do(desk: Desk) -> None:
    """The worse of the two is shown, and said."""
    trend = trend_of(pick=attempts(50))
    trend.steps[StepName("pick"), Direction.UNDO] = attempts(3, 3)
    put(desk, trend, minutes=2)
    pick = (await _heat(desk))["pick"]
    assert (pick["heat"], pick["direction"], pick["failed"]) == ("failing", "undo", 3)


async def test_before_anything_happened_there_are_steps_all_the_same(desk: Desk) -> None:
    """The graph is drawn from the definition."""
    pick = (await _heat(desk))["pick"]
    assert (pick["heat"], pick["p50"], pick["usual_p50"]) == ("quiet", None, None)
