"""Definitions that can't work are refused when they are written down, with the name of what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import BaseModel

from functions.pattern.definition import Step, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import StepName
from tests.fakes.workflows import DIAMOND, step, workflow


def _refusal(*steps: Step) -> str:
    with pytest.raises(DefinitionError) as refusal:
        workflow(*steps, name="trips")
    return str(refusal.value)


def test_step_is_found_by_its_name() -> None:
    """A workflow knows its steps, and no others."""
    assert DIAMOND.step(StepName("left")).agent == "left"
    with pytest.raises(KeyError):
        DIAMOND.step(StepName("middle"))


def test_unknown_need_is_named() -> None:
    """A need that no step fulfils is named with its step and workflow."""
    assert (
        _refusal(step("fly", "pack"))
        == "workflow 'trips': step 'fly' needs 'pack', which is not one of its steps"
    )


def test_circle_is_shown() -> None:
    """Steps that wait for each other are shown in their order."""
    text = _refusal(step("a", "c"), step("b", "a"), step("c", "b"), step("d"))
    assert text.startswith("workflow 'trips': its steps need each other in a circle: ")
    assert {"a", "b", "c"} == set(text.rpartition(": ")[2].split(" → "))


def test_step_that_needs_itself_is_a_circle() -> None:
    """The shortest circle is one too."""
    assert _refusal(step("a", "a")).endswith("in a circle: a → a")


def test_step_defined_twice_is_named() -> None:
    """Two steps of one name can't be told apart."""
    assert _refusal(step("a"), step("a")) == "workflow 'trips': step 'a' is defined twice"


@pytest.mark.parametrize("count", [0, 91])
def test_number_of_steps_is_bounded(count: int) -> None:
    """A task must fit into one transaction."""
    assert _refusal(*(step(f"s{n}") for n in range(count))).endswith(f"{count} steps; 1 to 90 are possible")


def test_as_many_steps_as_are_possible_are_taken() -> None:
    """The bound itself is allowed."""
    assert len(workflow(*(step(f"s{n}") for n in range(90))).steps) == 90


@pytest.mark.parametrize("name", ["", "Fly", "9lives", "a_b", "a" * 33, "a|b", "fly\n"])
def test_step_name_is_checked(name: str) -> None:
    """Names become parts of keys and URLs, so few characters are allowed."""
    assert f"name '{name}' must match" in _refusal(step(name))


@pytest.mark.parametrize(("name", "resource"), [("No Good", "trips"), ("trips", "No Good")])
def test_workflow_and_resource_names_are_checked(name: str, resource: str) -> None:
    """They go by the rule of the step names."""
    with pytest.raises(DefinitionError, match="name 'No Good' must match"):
        replace(DIAMOND, name=name, resource=resource)


@pytest.mark.parametrize("limit", [0, -1.5, float("nan")])
def test_complete_within_must_be_time(limit: float) -> None:
    """A step without time can't complete."""
    text = _refusal(step("fly", complete_within=limit))
    assert text == "workflow 'trips': step 'fly': complete_within must be more than 0 seconds"


@pytest.mark.parametrize("field", ["id", "reply_to", "correlation_id"])
def test_payload_may_not_use_the_envelopes_fields(field: str) -> None:
    """The submission itself has fields of these names."""
    payload = type("Taken", (BaseModel,), {"__annotations__": {field: str}})
    with pytest.raises(DefinitionError, match=f"workflow 'trips': payload field '{field}' is taken"):
        Workflow(name="trips", resource="trips", payload=payload, steps=(step("fly"),))
