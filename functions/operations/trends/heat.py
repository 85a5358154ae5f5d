"""Which step is slow or failing now: the last ten minutes beside the last day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import BaseModel

from functions.operations.trends.views import median
from functions.pattern.definition import Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Direction
from functions.pattern.trends import Period, StepTrend, StoredTrend, Trend

_NOW = timedelta(minutes=10)

#: Attempts from which on something is said: one slow call is no trend.
_FEWEST = 5
#: The part of the attempts that fail, and how many times as long as usual the median takes.
_FAILING = 0.2
_SLOW = 2


class Heat(StrEnum):
    """How it goes with a step, from the best to the worst."""

    #: Fewer than five attempts have ended in the last ten minutes.
    QUIET = "quiet"
    #: It goes as on the last day.
    USUAL = "as usual"
    #: The median is at least twice that of the last day.
    SLOW = "slow"
    #: At least a fifth of the attempts were refused, or not over at their complete-by.
    FAILING = "failing"


class StepHeat(BaseModel):
    """How it goes with a step: of `ended` attempts, `failed` were refused or expired; medians in seconds."""

    step: StepName
    direction: Direction
    heat: Heat
    ended: int
    failed: int
    p50: float | None
    usual_p50: float | None


class WorkflowHeat(BaseModel):
    """How it goes with the steps of a workflow, as its newest version has them; `needs` is by their names."""

    workflow: str
    version: int
    steps: list[StepHeat]
    needs: dict[StepName, list[StepName]]


class HeatMap(BaseModel):
    """How it goes with every step since `since`."""

    at: datetime
    since: datetime
    workflows: list[WorkflowHeat]


def heat_map(rows: Iterable[StoredTrend], workflows: Iterable[Workflow], now: datetime) -> HeatMap:
    """Compare the rows of the last ten minutes with all of them, which are of a day."""
    since = Period.MINUTE.start(now - _NOW)
    recent: dict[str, Trend] = {}
    usual: dict[str, Trend] = {}
    for row in rows:
        usual.setdefault(row.key.workflow, Trend()).add(row.trend)
        if row.key.at >= since:
            recent.setdefault(row.key.workflow, Trend()).add(row.trend)
    shown = [
        _workflow_heat(each, recent.get(each.name, Trend()), usual.get(each.name, Trend()))
        for each in workflows
    ]
    return HeatMap(at=now, since=since, workflows=shown)


def _workflow_heat(workflow: Workflow, recent: Trend, usual: Trend) -> WorkflowHeat:
    steps = workflow.shape.steps
    return WorkflowHeat(
        workflow=workflow.name,
        version=workflow.version,
        steps=[_worse(step.name, recent, usual) for step in steps],
        needs={step.name: sorted(step.needs) for step in steps},
    )


def _worse(step: StepName, recent: Trend, usual: Trend) -> StepHeat:
    """Give the heat of the direction with which it goes worse."""
    heats = [_step_heat(step, direction, recent, usual) for direction in Direction]
    return max(heats, key=lambda each: _SEVERITY.index(each.heat))


_SEVERITY: Sequence[Heat] = tuple(Heat)


def _step_heat(step: StepName, direction: Direction, recent: Trend, usual: Trend) -> StepHeat:
    now = recent.steps.get((step, direction), StepTrend())
    before = usual.steps.get((step, direction), StepTrend())
    p50, usual_p50 = median(now), median(before)
    if now.ended < _FEWEST:
        heat = Heat.QUIET
    elif now.bad >= _FAILING * now.ended:
        heat = Heat.FAILING
    elif p50 is not None and usual_p50 is not None and p50 >= _SLOW * usual_p50:
        heat = Heat.SLOW
    else:
        heat = Heat.USUAL
    return StepHeat(
        step=step,
        direction=direction,
        heat=heat,
        ended=now.ended,
        failed=now.bad,
        p50=p50,
        usual_p50=usual_p50,
    )
