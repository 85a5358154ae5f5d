"""The Scheduler's first act: take the task, or leave it to who holds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.definition import Registry
from functions.pattern.identity import StepName, TaskId
from functions.scheduler.claim import Claim, Claimer
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import recovered
from tests.fakes.ports import fake_ports
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import DIAMOND, TASK

REFUSED = Claim(taken=False)


@pytest.fixture
def store() -> MemoryStateStore:
    """Make a store in which a task waits for its Scheduler."""
    store = MemoryStateStore(FakeClock())
    store.put(pending())
    return store


@pytest.fixture
def claimer(store: MemoryStateStore) -> Claimer:
    """Make a claimer on that store."""
    return Claimer(fake_ports(store=store), Registry((DIAMOND,), {}), 20)


async def test_claim_takes_the_task_and_names_what_can_start(
    claimer: Claimer, store: MemoryStateStore
) -> None:
    """The task is locked by the instance, and due when nothing starts in time."""
    assert await claimer.claim(TASK, FIRST) == Claim(taken=True, ready=(StepName("open"),))
    task = store.record(TASK).task
    assert (task.locked_by, task.complete_by) == ("task-1.1", after(20))


async def test_claim_told_again_is_taken_again(claimer: Claimer, store: MemoryStateStore) -> None:
    """The activity may run twice; nothing is written the second time."""
    first = await claimer.claim(TASK, FIRST)
    writes = store.writes
    assert await claimer.claim(TASK, FIRST) == first
    assert store.writes == writes


async def test_recovered_task_goes_on_after_its_completed_steps(
    claimer: Claimer, store: MemoryStateStore
) -> None:
    """The step that was running is named again."""
    lost = told(pending(), claimed(), started("open"), completed("open"), started("left"))
    store.put(recovered(lost))
    assert await claimer.claim(TASK, SECOND) == Claim(taken=True, ready=(StepName("left"), StepName("right")))


async def test_older_epoch_takes_nothing(claimer: Claimer, store: MemoryStateStore) -> None:
    """The request of an old attempt came late."""
    store.put(recovered(pending()))
    writes = store.writes
    assert await claimer.claim(TASK, FIRST) == REFUSED
    assert store.writes == writes


async def test_task_that_does_not_exist_is_not_taken(claimer: Claimer) -> None:
    """A start for a task that housekeeping has removed."""
    assert await claimer.claim(TaskId("other"), FIRST) == REFUSED


async def test_task_of_an_unknown_workflow_is_not_taken(claimer: Claimer, store: MemoryStateStore) -> None:
    """It stays `Pending`, and is found by its due time."""
    store.put(replace(pending(), order=replace(pending().order, workflow="gone")))
    assert await claimer.claim(TASK, FIRST) == REFUSED
    assert store.record(TASK).task.locked_by is None
