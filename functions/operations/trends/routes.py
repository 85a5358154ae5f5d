"""The operators' requests for trends and heat."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from functions.operations.trends.heat import HeatMap
from functions.operations.trends.reader import TrendReader
from functions.operations.trends.views import Over, Trends
from functions.pattern.definition import NAME_PATTERN
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems

WorkflowQuery = Annotated[
    str | None, Query(pattern=f"^{NAME_PATTERN}$", description="Of one workflow", examples=["orders"])
]

_COUNTS = {
    "accepted": 240,
    "processed": 236,
    "compensated": 3,
    "error": 1,
    "recovered": 2,
    "p50": 0.41,
    "p99": 1.2,
}

_TRENDS: dict[str, Any] = {
    "at": "2026-11-21T12:00:02Z",
    "over": "day",
    "points": [{"at": "2026-11-21T12:00:00Z", **_COUNTS}],
    "workflows": [
        {
            **_COUNTS,
            "workflow": "orders",
            "steps": [
                {
                    "step": "payment",
                    "direction": "do",
                    "completed": 236,
                    "failed": 3,
                    "expired": 2,
                    "p50": 0.28,
                    "p99": 0.98,
                }
            ],
        }
    ],
}

_HEAT: dict[str, Any] = {
    "at": "2026-11-21T12:00:02Z",
    "since": "2026-11-21T11:50:00Z",
    "workflows": [
        {
            "workflow": "orders",
            "version": 1,
            "steps": [
                {
                    "step": "payment",
                    "direction": "do",
                    "heat": "slow",
                    "ended": 40,
                    "failed": 1,
                    "p50": 0.98,
                    "usual_p50": 0.28,
                }
            ],
            "needs": {"payment": []},
        }
    ],
}


def add_trends(router: APIRouter, reader: TrendReader) -> None:
    """Add them to the operators' router."""

    @router.get("/trends", responses=documented_answer(_TRENDS) | documented_problems(422, 503))
    async def trends(over: Over = Over.DAY, workflow: WorkflowQuery = None) -> Trends:
        """Show what happened over an hour, a day or a month, and how long it took.

        A workflow that is named narrows the points, not the list of workflows.
        """
        return await reader.read(over, workflow)

    @router.get("/heat", responses=documented_answer(_HEAT) | documented_problems(503))
    async def heat() -> HeatMap:
        """Show which steps are slow or failing now: the last ten minutes beside the last day."""
        return await reader.heat()
