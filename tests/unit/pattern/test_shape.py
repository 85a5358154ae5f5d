"""What is recorded of a workflow's steps comes back whole, and is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern import definition
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import StepName
from functions.pattern.retry import Retry
from functions.pattern.shape import MAX_SHAPE_BYTES, Shape, StepShape, read_shape
from functions.pattern.states import Expiry, FaultKind, Remedy, Way
from tests.fakes.tasks import pending
from tests.fakes.workflows import DIAMOND, LINE, TRIP, step, trip, workflow

_LONG = "n" * 30


@st.composite
def _shapes(draw: st.DrawFn) -> Shape:
    faults = st.sampled_from(FaultKind)
    names = [StepName(f"s{number}") for number in range(draw(st.integers(1, 6)))]
    steps = tuple(
        StepShape(
            name=name,
            agent=draw(st.sampled_from(["one", "other"])),
            via=draw(st.sampled_from(Way)),
            needs=frozenset(draw(st.sets(st.sampled_from(names)))),
            undo=draw(st.booleans()),
            idempotent=draw(st.booleans()),
            complete_within=draw(st.floats(0.001, 1e6)),
            on_failure=draw(st.none() | st.sampled_from(Remedy)),
            retry=draw(st.none() | st.builds(Retry, attempts=st.integers(1, 9), on=st.sets(faults))),
            role=draw(st.none() | st.just("Operator")),
            on_expiry=draw(st.sampled_from(Expiry)),
            default=draw(st.none() | st.just('{"approved":true}')),
            at_once=draw(st.none() | st.integers(1, 90)),
        )
        for name in names
    )
    remedies = st.sampled_from(Remedy)
    return Shape(steps=steps, on_failure=draw(remedies), on_exhausted=draw(remedies))


@given(_shapes())
def test_shape_comes_back_from_what_is_written(shape: Shape) -> None:
    """Every step, with whatever it needs, also one that comes after it."""
    assert read_shape(shape.written) == shape


def test_shape_is_written_compactly() -> None:
    """A step that is needed is a number: it is read by people as well."""
    assert LINE.shape.written == (
        b'{"on_failure":"hold","on_exhausted":"hold","steps":['
        b'{"name":"pick","agent":"pick","via":"activity","needs":[],"undo":false,"idempotent":true,'
        b'"complete_within":10},'
        b'{"name":"send","agent":"send","via":"activity","needs":[0],"undo":false,"idempotent":true,'
        b'"complete_within":10}]}'
    )


@pytest.mark.parametrize(
    "damaged",
    [b"", b"[]", b'{"steps":[{}]}', LINE.shape.written.replace(b"[0]", b"[7]")],
    ids=["empty", "list", "step without a name", "need without a step"],
)
def test_damaged_shape_is_refused(damaged: bytes) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"can't be read|Expecting"):
        read_shape(damaged)


def test_widest_workflow_fits() -> None:
    """90 steps with the longest names, each of which needs all before it."""
    names = [f"{_LONG}{number:02d}" for number in range(90)]
    widest = workflow(*(step(name, *names[:number]) for number, name in enumerate(names)))
    assert len(widest.shape.written) < MAX_SHAPE_BYTES
    assert read_shape(widest.shape.written) == widest.shape


def test_shape_that_no_row_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the workflow is defined, not when its first task is admitted."""
    monkeypatch.setattr(definition, "MAX_SHAPE_BYTES", len(LINE.shape.written))
    workflow(*LINE.steps)
    with pytest.raises(DefinitionError, match="what is recorded of its steps has more than"):
        workflow(*DIAMOND.steps)


def test_task_is_made_of_its_shape() -> None:
    """Each step has its part of the order's."""
    record = pending(TRIP)
    assert record.order.shape == TRIP.shape
    assert [each.shape for each in record.steps] == list(TRIP.shape.steps)
    assert [each.name for each in record.steps] == ["flight", "hotel", "car"]


def test_remedies_are_a_part_of_it() -> None:
    """A task keeps those that it was submitted with."""
    assert trip(remedy=Remedy.HOLD).shape != trip(remedy=Remedy.COMPENSATE).shape
