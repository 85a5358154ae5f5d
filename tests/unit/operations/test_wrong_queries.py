"""A query that can't be meant is refused with its reason, for a list as for a count."""

from __future__ import annotations

import pytest

from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk


@pytest.mark.parametrize(
    "query", ["state=Lost", "order=best", "min_age=-1", "max_age=nan", "prefix=a|b", "workflow=A", "shard=1"]
)
async def test_query_that_can_not_be_meant_is_refused(desk: Desk, query: str) -> None:
    """The field is named."""
    [field] = wrong_fields(await desk.get(f"/tasks?{query}"))
    assert query.split("=", maxsplit=1)[0] in field


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("step=send.3", "name the step without the item's number: send"),
        ("state=Error&parked=true", "a parked task is Pending, and not Error"),
        ("state=Processing&parked=true", "a parked task is Pending, and not Processing"),
        ("parked=true&under_way=true", "what is parked, in Error or has ended is not under way"),
        ("state=Processed&under_way=true", "what is parked, in Error or has ended is not under way"),
    ],
)
async def test_query_that_no_task_fits_is_refused_with_the_reason(
    desk: Desk, query: str, reason: str
) -> None:
    """One of two states was passed over, and a list, a count or an action was of the other's tasks."""
    field = query.rsplit("&", maxsplit=1)[-1].partition("=")[0]
    for path in ("tasks", "count"):
        [fault] = problem(await desk.get(f"/{path}?{query}"), 422)["errors"]
        assert fault == {"field": field, "reason": f"Value error, {reason}"}


@pytest.mark.parametrize("query", ["state=Pending&parked=true", "state=Processing&under_way=true"])
async def test_states_that_go_together_are_taken(desk: Desk, query: str) -> None:
    """Each narrows the other."""
    assert (await desk.get(f"/tasks?{query}")).status == 200
