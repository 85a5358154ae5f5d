"""A defect whose exception can't say what it is, is a defect all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from functions.pattern.identity import StepName
from functions.pattern.states import ProcessState, Remedy
from tests.fakes.workflows import step, workflow
from tests.unit.scheduler.bench import Bench


class NoSeatError(Exception):
    """Its text is made of what it was not given."""

    def __str__(self) -> str:
        return f"no seat in row {self.args[0]}"


def _request(_payload: Any, _results: Mapping[StepName, Any]) -> dict[str, Any]:
    raise NoSeatError


async def test_defect_that_has_no_text_holds_the_task_at_once() -> None:
    """Issue 3: such a task is held at once, not retried six times, and then undone."""
    bench = Bench(workflow(replace(step("pay"), request=_request), remedy=Remedy.COMPENSATE))
    await bench.run()
    assert bench.state is ProcessState.ERROR
