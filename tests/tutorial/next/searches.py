"""Searches: a rental of the first category that can be had, of three."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.workflow import Json, Results, Workflow, WorkflowStep, days
from functions.workflows_next.registration import Registration

ROUNDS = [f"round-{number}" for number in range(1, 4)]


class Search(BaseModel):
    """The driver, and the categories in order of preference."""

    model_config = ConfigDict(extra="forbid")

    driver: str
    categories: Annotated[tuple[str, ...], Field(min_length=1, max_length=len(ROUNDS))]


def _round(number: int) -> WorkflowStep[Any]:
    """Return the step that rents by a category, if none of the earlier rounds has found a car."""
    before = ROUNDS[:number]

    def is_needed(search: Search, results: Results) -> bool:
        return number < len(search.categories) and all(results[each] is None for each in before)

    def request(search: Search, _results: Results) -> Json:
        return {"driver": search.driver, "category": search.categories[number]}

    return WorkflowStep(
        ROUNDS[number],
        needs=before[-1:],
        when=is_needed,
        workflow="rental",
        request=request,
        complete_within=days(1),
        on_failure="continue",
    )


def _output(_search: Search, results: Results) -> Json:
    found = [results[each]["car"] for each in ROUNDS if results[each] is not None]
    return {"car": found[0] if found else None}


SEARCHES = Workflow(
    "search",
    resource="searches",
    payload=Search,
    steps=[_round(number) for number in range(len(ROUNDS))],
    output=_output,
)

REGISTRATION = Registration(SEARCHES)
