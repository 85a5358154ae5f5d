"""Definitions that can't work are refused when they are written down, with the name of what is wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Field, create_model

from functions.pattern.definition import Step, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import StepName
from functions.pattern.states import Remedy, Way
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
    assert f": step name '{name}' must match" in _refusal(step(name))


def test_agent_that_is_missing_is_asked_for_at_its_step() -> None:
    """An empty name alone would not say what of."""
    text = _refusal(replace(step("fly"), agent=""))
    assert text.startswith("workflow 'trips': step 'fly': agent '' must match")


@pytest.mark.parametrize(
    ("of", "name", "resource"), [("name", "No Good", "trips"), ("resource", "trips", "No Good")]
)
def test_workflow_and_resource_names_are_checked(of: str, name: str, resource: str) -> None:
    """They go by the rule of the step names."""
    with pytest.raises(DefinitionError, match=f": {of} 'No Good' must match"):
        replace(DIAMOND, name=name, resource=resource)


@pytest.mark.parametrize("limit", [0, -1.5, float("nan"), float("inf"), 365 * 86_400 + 1, True, "10"])
def test_complete_within_must_be_time_with_an_end(limit: Any) -> None:
    """A step without time can't complete, and one with endless time is never found lost."""
    text = _refusal(step("fly", complete_within=limit))
    assert text == (
        "workflow 'trips': step 'fly': complete_within must be more than 0 and at most 31536000 seconds,"
        f" not {limit!r}"
    )


@pytest.mark.parametrize("written", [{"pack"}, frozenset({"pack"}), ["pack"], ("pack",)], ids=repr)
def test_needs_may_be_any_collection_of_names(written: Any) -> None:
    """They are a set, however they were written."""
    fly = workflow(step("pack"), replace(step("fly"), needs=written)).step(StepName("fly"))
    assert fly.needs == frozenset({"pack"})
    assert hash(fly)


def test_needs_may_not_be_a_bare_text() -> None:
    """It would be taken for a set of letters."""
    assert _refusal(step("pack"), replace(step("fly"), needs=cast("Any", "pack"))) == (
        "workflow 'trips': step 'fly': needs must be a set of names: write {'pack'} instead of 'pack'"
    )


@pytest.mark.parametrize("written", [None, {}, {"pack": 1}, [1], [["pack"]]], ids=repr)
def test_needs_may_be_nothing_else(written: Any) -> None:
    """The developer sees what was written."""
    assert _refusal(replace(step("fly"), needs=written)) == (
        "workflow 'trips': step 'fly': needs must be a set of steps' names, such as {'payment'},"
        f" not {written!r}"
    )


def test_steps_may_be_a_list() -> None:
    """They are kept as a tuple, which nobody can change."""
    steps: Any = [step("fly")]
    assert replace(DIAMOND, steps=steps).steps == (step("fly"),)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (step("fly"), "Step"),
        (None, "NoneType"),
        ({step("fly")}, "set"),
        ([step("fly"), "pay"], "one with a str in it"),
    ],
)
def test_steps_are_a_list_of_steps(written: Any, found: str) -> None:
    """A lone one in its place is an easy slip."""
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, steps=written)
    assert str(refusal.value) == f"workflow 'diamond': steps must be a list of Step(…), not {found}"


@pytest.mark.parametrize("field", ["on_failure", "on_exhausted"])
def test_remedy_may_be_written_as_its_text(field: str) -> None:
    """Rules compare it with the enum's members, so it becomes one."""
    remedies: Any = {field: "compensate"}
    assert getattr(replace(DIAMOND, **remedies), field) is Remedy.COMPENSATE


@pytest.mark.parametrize("field", ["on_failure", "on_exhausted"])
@pytest.mark.parametrize("written", ["undo", "Compensate", None])
def test_unknown_remedy_is_refused_with_the_choices(field: str, written: Any) -> None:
    """Misspelt, it would mean one of them, unseen."""
    remedies: Any = {field: written}
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, **remedies)
    assert str(refusal.value) == (
        f"workflow 'diamond': {field} must be Remedy.COMPENSATE or Remedy.HOLD, not {written!r}"
    )


@pytest.mark.parametrize("field", ["undo", "idempotent"])
@pytest.mark.parametrize("written", ["no", "", 0, None])
def test_flag_is_true_or_false(field: str, written: Any) -> None:
    """Any text is true: what must not be repeated would be."""
    flags: Any = {field: written}
    assert _refusal(replace(step("fly"), **flags)) == (
        f"workflow 'trips': step 'fly': {field} must be True or False, not {written!r}"
    )


@pytest.mark.parametrize("field", ["request", "when", "undo_request"])
def test_function_of_a_step_can_be_called(field: str) -> None:
    """It would be found out by the first order."""
    functions: Any = {field: {"seat": "4A"}}
    assert _refusal(replace(step("fly", undo=True), **functions)) == (
        f"workflow 'trips': step 'fly': {field} must be a function of the payload and the results,"
        " not {'seat': '4A'}"
    )


async def _later(*_: object) -> Any:
    return False


def _bit_by_bit(*_: object) -> Any:
    yield False


class _Checks:
    async def __call__(self, _parcel: object, _results: object) -> Any:
        return False


@pytest.mark.parametrize("field", ["request", "when", "undo_request"])
@pytest.mark.parametrize("function", [_later, partial(_later), _bit_by_bit, _Checks()])
def test_function_of_a_step_is_not_asynchronous(field: str, function: Any) -> None:
    """What it gives is a promise: a condition would hold for every order, also for one that is refused."""
    functions: Any = {field: function}
    assert _refusal(replace(step("fly", undo=True), **functions)) == (
        f"workflow 'trips': step 'fly': {field} must be a function of the payload and the results"
        " that gives it at once: leave out its async, or its yield"
    )


def test_request_is_not_left_out() -> None:
    """Unlike the other functions."""
    assert "request must be a function" in _refusal(replace(step("fly"), request=cast("Any", None)))


@pytest.mark.parametrize("payload", [dict, dict[str, str], {}, None])
def test_payload_is_a_model(payload: Any) -> None:
    """It says what callers may send."""
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, payload=payload)
    assert str(refusal.value) == (
        f"workflow 'diamond': payload must be a pydantic model class, not {payload!r}"
    )


def test_answer_can_be_called() -> None:
    """It is called once only, when all is done."""
    with pytest.raises(DefinitionError, match="workflow 'diamond': answer must be a function of the payload"):
        replace(DIAMOND, answer=cast("Any", {"seat": "4A"}))


def test_request_for_an_undo_that_never_comes_is_refused() -> None:
    """The developer forgot to say that the step can be undone."""
    assert _refusal(replace(step("fly"), undo_request=step("fly").request)) == (
        "workflow 'trips': step 'fly': it has undo_request, but no undo: add undo=True"
    )


def test_way_is_read_as_remedies_are() -> None:
    """The same mistake in another field."""
    assert workflow(replace(step("fly"), via=cast("Any", "queue"))).steps[0].via is Way.QUEUE
    assert _refusal(replace(step("fly"), via=cast("Any", "bus"))) == (
        "workflow 'trips': step 'fly': via must be Way.ACTIVITY or Way.QUEUE or Way.EVENT or Way.TIMER"
        " or Way.WORKFLOW, not 'bus'"
    )


@pytest.mark.parametrize("resource", ["docs", "health", "openapi", "ops", "services"])
def test_resources_of_the_application_itself_are_refused(resource: str) -> None:
    """The host would send such an order elsewhere."""
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, resource=resource)
    assert str(refusal.value) == (
        f"workflow 'diamond': resource '{resource}' must be renamed: the application itself has docs,"
        " health, openapi, ops, services"
    )


@pytest.mark.parametrize("field", ["id", "reply_to", "correlation_id"])
def test_payload_may_not_use_the_envelopes_fields(field: str) -> None:
    """The submission itself has fields of these names."""
    payload = type("Taken", (BaseModel,), {"__annotations__": {field: str}})
    with pytest.raises(DefinitionError, match=f"workflow 'trips': payload field '{field}' is taken"):
        Workflow(name="trips", resource="trips", payload=payload, steps=(step("fly"),))


@pytest.mark.parametrize(
    "alias", ["id", AliasPath("id", "text"), AliasChoices("number", "id"), AliasChoices(AliasPath("id", 0))]
)
def test_payload_may_not_be_called_by_the_envelopes_fields(alias: str | AliasPath | AliasChoices) -> None:
    """Callers know a field by its aliases."""
    payload = create_model("Called", number=(str, Field(validation_alias=alias)))
    with pytest.raises(DefinitionError, match="workflow 'trips': payload field 'id' is taken"):
        Workflow(name="trips", resource="trips", payload=payload, steps=(step("fly"),))
