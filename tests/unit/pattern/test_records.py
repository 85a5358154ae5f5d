"""Records are looked into by step, and names join into the ids that are known everywhere."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.identity import (
    TASK_ID_PATTERN,
    Epoch,
    StepName,
    TaskId,
    effect_key,
    new_birth,
    resource_id,
    resource_of,
    scheduler_id,
)
from functions.pattern.states import Direction, StepState, Way
from tests.fakes.tasks import pending
from tests.fakes.workflows import BIRTH, TASK, step, workflow

_ATTEMPTS = st.tuples(st.from_regex(TASK_ID_PATTERN, fullmatch=True), st.integers(1, 1_000))


def test_changed_step_takes_its_own_place() -> None:
    """The other steps stay what they were."""
    before = pending()
    after = before.with_step(replace(before.step(StepName("left")), state=StepState.RUNNING))
    assert after.step(StepName("left")).state is StepState.RUNNING
    assert [step.name for step in after.steps] == [step.name for step in before.steps]
    assert [old is new for old, new in zip(before.steps, after.steps, strict=True)].count(False) == 1


def test_unknown_step_is_an_error() -> None:
    """A step that the task does not have is not made up."""
    with pytest.raises(KeyError, match="middle"):
        pending().step(StepName("middle"))


@given(st.lists(_ATTEMPTS, min_size=2, max_size=2, unique=True))
def test_two_attempts_never_share_an_instance(attempts: list[tuple[str, int]]) -> None:
    """Neither two tasks nor two epochs of one task."""
    first, second = (scheduler_id(TaskId(task), Epoch(epoch)) for task, epoch in attempts)
    assert first != second


def test_effect_key_is_the_same_in_every_epoch() -> None:
    """It names the effect, not the attempt; doing and undoing are two effects."""
    resource = resource_id(TASK, BIRTH)
    assert effect_key(resource, StepName("pay"), Direction.DO) == "task-1.0a1b2c3d/pay/do"
    assert effect_key(resource, StepName("pay"), Direction.UNDO) == "task-1.0a1b2c3d/pay/undo"


def test_id_that_is_used_again_has_other_effects() -> None:
    """Each admission gives its task a birth of its own: 8 characters of a new id."""
    births = [new_birth(uuid.uuid4().hex) for _ in range(2)]
    first, second = (effect_key(resource_id(TASK, birth), StepName("pay"), Direction.DO) for birth in births)
    assert first != second
    assert {len(birth) for birth in births} == {8}
    assert resource_of(first) == resource_id(TASK, births[0])


def test_steps_behind_queues_are_known_without_the_definition() -> None:
    """So that whoever asks for a Scheduler can say whose replies it awaits."""
    assert pending(workflow(step("a"), step("b", via=Way.QUEUE))).queued == ("b",)
