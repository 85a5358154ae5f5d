"""The activity never raises: a raising activity breaks `task_all` and retries of the Durable SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from functions.pattern.errors import TransientError
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.takers import ReplyTaker, RequestTaker
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections
from tests.fakes.runners import limits
from tests.fakes.times import RecordedRefusals
from tests.fakes.workflows import LINE, TASK
from tests.unit.scheduler.bench import Bench

Activity = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
GIVEN = {"task": TASK, "epoch": 1, "number": 1, "share": False}
UNKNOWN = {"state": "unknown", "over": False, "runs": 0, "awaited": {}}


@pytest.fixture
def bench() -> Bench:
    """Make a bench on which a task waits for its Scheduler."""
    return Bench(LINE)


@pytest.fixture
def run_steps(bench: Bench) -> Activity:
    """Give the function that the host calls."""
    ports = fake_ports(store=bench.store, rejected=RecordedRejections())
    replies = ReplyTaker(ports, limits(), RecordedRefusals().alert)
    blueprint = scheduler_blueprint(bench.runs, RequestTaker(ports, limits()), replies)
    functions = [builder.build() for builder in blueprint._function_builders]
    found: Activity = {each.get_function_name(): each.get_user_function() for each in functions}["run_steps"]
    return found


async def test_activity_tells_the_orchestrator_how_the_task_stands(run_steps: Activity) -> None:
    """Plain JSON: a state, and what happens next."""
    assert await run_steps(GIVEN) == {"state": "Processed", "over": True, "runs": 0, "awaited": {}}


@pytest.mark.parametrize("failure", [OSError("no store"), TransientError("503")])
async def test_failing_run_is_left_to_the_supervisor(
    bench: Bench, run_steps: Activity, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task stays due, and is found."""

    async def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(bench.store, "change", fail)
    assert await run_steps(GIVEN) == UNKNOWN


async def test_defect_of_the_store_is_not_tried_again(bench: Bench, run_steps: Activity) -> None:
    """Only what may pass is."""
    bench.store.failure = OSError("no store")
    assert await run_steps(GIVEN) == UNKNOWN
