"""A step that is a task of another workflow: how it is defined, and how deep that may go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.definition import Registry, Step, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.shape import read_shape
from functions.pattern.states import Way
from tests.fakes.workflows import LINE, TRIP, nested, step, timer, workflow


def _named(name: str, *steps: Step, version: int = 1) -> Workflow:
    return replace(workflow(*steps, name=name, resource=f"{name}s"), version=version)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"agent": "car"}, "a step by way workflow has no agent: leave it out"),
        ({"undo": True}, "a step by way workflow has no undo: leave it out"),
        ({"undo_request": lambda *_: {}}, "a step by way workflow has no undo_request: leave it out"),
        ({"idempotent": False}, "a step by way workflow has no idempotent: leave it out"),
        ({"role": "Submitter"}, "a step by way workflow has no role: leave it out"),
        ({"workflow": None}, "workflow must be the name of a workflow, not None"),
        ({"request": None}, "request must be a function of the payload and the results, not None"),
        ({"complete_within": 0}, "complete_within must be more than 0"),
    ],
)
def test_step_that_can_t_work_is_refused(fields: Any, text: str) -> None:
    """When it is defined, with the field and the fix."""
    with pytest.raises(DefinitionError, match=text):
        workflow(replace(nested("car"), **fields))


@pytest.mark.parametrize("other", [step("car"), timer("car")])
def test_other_steps_have_no_workflow(other: Step) -> None:
    """They would never ask for it."""
    with pytest.raises(DefinitionError, match=f"a step by way {other.via} has no workflow: leave it out"):
        workflow(replace(other, workflow="line"))


def test_child_can_always_be_undone_and_its_workflow_is_recorded() -> None:
    """Shapes without one are written as before."""
    parent = replace(workflow(nested("car")), cancel_within=60)
    [shape] = read_shape(parent.shape.written).steps
    assert (shape.via, shape.undo, shape.workflow, shape.agent) == (Way.WORKFLOW, True, "line", "")
    assert b"workflow" not in TRIP.shape.written


def test_workflow_that_is_not_there_is_named_with_the_fix() -> None:
    """At the start of the application."""
    with pytest.raises(DefinitionError) as refusal:
        Registry((_named("trip", nested("car", of="cars")), LINE), {})
    expected = (
        "workflow 'trip': step 'car': there is no workflow 'cars': name one of line, trip, or register it"
    )
    assert str(refusal.value) == expected


def test_circle_is_refused() -> None:
    """It would never end."""
    with pytest.raises(DefinitionError) as refusal:
        Registry((_named("trip", nested("car", of="car")), _named("car", nested("back", of="trip"))), {})
    text = "workflow 'car': step 'back': its workflow leads back to itself (trip → car → trip)"
    assert str(refusal.value) == f"{text}: break the circle"


def test_circle_counts_only_among_versions_that_children_take() -> None:
    """A child is of the newest version: the older one of its parent is in no circle."""
    older = _named("trip", nested("car", of="car"))
    newer = _named("trip", step("walk"), version=2)
    assert len(list(Registry((older, newer, _named("car", nested("back", of="trip"))), {}))) == 3


def test_depth_is_bounded() -> None:
    """Three workflows in each other are possible, and no fourth."""
    chain = [_named(name, nested("next", of=of)) for name, of in ("ab", "bc", "cd")]
    Registry((*chain[1:], _named("d", step("end"))), {})
    with pytest.raises(DefinitionError) as refusal:
        Registry((*chain, _named("d", step("end"))), {})
    text = "workflow 'c': step 'next': more than 3 workflows in each other (a → b → c → d): take one out"
    assert str(refusal.value) == text
