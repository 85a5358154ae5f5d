"""The activities never raise: a raising activity breaks `task_all` and retries of the Durable SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from functions.pattern.definition import Registry
from functions.scheduler.blueprint import scheduler_blueprint
from functions.scheduler.claim import Claimer
from functions.scheduler.outcomes import Outcomes
from functions.scheduler.takers import ReplyTaker, RequestTaker
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections
from tests.fakes.runners import make_runner
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import pending
from tests.fakes.workflows import DIAMOND, TASK

Activity = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
ATTEMPT = {"task": TASK, "epoch": 1}


class Agent:
    """Does what it is asked."""

    async def do(self, call: Any) -> dict[str, Any]:  # noqa: ARG002 - an Agent's interface
        """Do it."""
        return {}

    async def undo(self, call: Any) -> None:
        """Undo it."""


@pytest.fixture
def store() -> MemoryStateStore:
    """Make a store in which a task waits for its Scheduler."""
    store = MemoryStateStore(FakeClock())
    store.put(pending())
    return store


@pytest.fixture
def activities(store: MemoryStateStore) -> dict[str, Activity]:
    """Give the blueprint's functions by name."""
    registry = Registry((DIAMOND,), {})
    ports = fake_ports(store=store, rejected=RecordedRejections())
    blueprint = scheduler_blueprint(
        Claimer(ports, registry, 30),
        make_runner(store, {"open": Agent()}, registry, FakeClock()),
        RequestTaker(ports),
        ReplyTaker(ports, Outcomes(ports, 30), registry),
    )
    functions = [builder.build() for builder in blueprint._function_builders]
    return {each.get_function_name(): each.get_user_function() for each in functions}


async def test_activities_tell_the_orchestrator_what_is_ready(activities: dict[str, Activity]) -> None:
    """Plain JSON: an outcome, and names of steps."""
    assert await activities["claim"](ATTEMPT) == {"outcome": "claimed", "ready": ["open"]}
    done = await activities["run_step"]({**ATTEMPT, "step": "open"})
    assert done == {"outcome": "completed", "ready": ["left", "right"]}


async def test_claim_that_is_refused_makes_nothing_ready(activities: dict[str, Activity]) -> None:
    """There is no such task."""
    assert await activities["claim"]({"task": "other", "epoch": 1}) == {"outcome": "not claimed", "ready": []}


async def test_failing_claim_is_not_claimed(activities: dict[str, Activity], store: MemoryStateStore) -> None:
    """The task stays due, and is found."""
    store.failure = OSError("no store")
    assert await activities["claim"](ATTEMPT) == {"outcome": "not claimed", "ready": []}


async def test_failing_step_is_expired(activities: dict[str, Activity], store: MemoryStateStore) -> None:
    """Its outcome is unknown."""
    store.failure = OSError("no store")
    assert await activities["run_step"]({**ATTEMPT, "step": "open"}) == {"outcome": "expired", "ready": []}
