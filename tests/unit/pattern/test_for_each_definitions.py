"""What a definition says of a step for each item: what is refused, and what its functions are asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from functions.pattern.cannot_start import CannotStart
from functions.pattern.definition import Registry, Step, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import StepName
from functions.pattern.items import items_digest
from functions.pattern.readiness import Definitions
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, Way
from tests.fakes.interventions import refused
from tests.fakes.tasks import claimed, completed, pending, started, told
from tests.fakes.workflows import each, step, timer, trip, workflow

THIRD = StepName("send.2")
FLOW = workflow(each("send", undo=True))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"for_each": 3}, "for_each must be a function of the payload, not 3"),
        ({"for_each": lambda: [1]}, "for_each must be a function of the payload (too many"),
        ({"request": lambda *, item: item}, "request must be a function of the payload and the results and"),
        ({"when": lambda _parcel: True}, "when must be a function of the payload and the results and the"),
        (
            {"undo_request": lambda: {"n": 1}},
            "undo_request must be a function of the payload and the results",
        ),
        ({"at_once": 0}, "at_once must be a whole number from 1 to 90, not 0"),
        ({"at_once": 91}, "at_once must be a whole number from 1 to 90, not 91"),
        ({"at_once": True}, "at_once must be a whole number from 1 to 90, not True"),
        ({"for_each": None, "request": lambda *_: {}, "at_once": 2}, "it has at_once, but no for_each"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_step_for_each_item_that_can_t_work_is_refused(fields: Any, text: str) -> None:
    """When it is defined, with the field and the fix."""
    with pytest.raises(DefinitionError) as refusal:
        workflow(replace(each("send", undo=True), **fields))
    assert text in str(refusal.value)


def test_function_that_wants_an_item_is_refused_on_a_plain_step() -> None:
    """It has none."""
    with pytest.raises(DefinitionError, match="request must be a function of the payload and the results "):
        workflow(replace(step("send"), request=lambda _parcel, _results, item: {"item": item}))


def test_function_whose_arguments_nobody_knows_is_taken() -> None:
    """As some are that are built in."""
    assert workflow(replace(step("send"), when=max)).steps[0].when is max


def test_wait_is_for_the_whole_order() -> None:
    """An event or a time for each item is no step."""
    with pytest.raises(DefinitionError, match="a step by way timer has no for_each: leave it out"):
        workflow(replace(timer("nap"), for_each=lambda parcel: [parcel.weight]))


def test_sixteen_items_run_at_once_unless_it_says_otherwise() -> None:
    """It is recorded with the task; a plain step has no such limit."""
    flow = workflow(each("send"), each("call", at_once=3), step("close"))
    assert [shape.at_once for shape in flow.shape.steps] == [16, 3, None]


def _here(record: TaskRecord, deployed: Workflow = FLOW) -> Definitions:
    return Definitions(Registry((deployed,), {}), record)


def _fewer(for_each: Any) -> Workflow:
    return workflow(replace(each("send", undo=True), for_each=for_each))


def test_functions_get_the_item() -> None:
    """`when` tells of each item whether it is needed, and `undo_request` what to undo."""

    def heavy(_parcel: object, _results: object, item: int) -> bool:
        return item > 2

    def undo(_parcel: object, results: Any, item: int) -> dict[str, Any]:
        return {"item": item, "of": results["send"]["n"]}

    flow = workflow(replace(each("send", undo=True, when=heavy), undo_request=undo))
    begun = told(pending(flow), claimed(), started("send.2"), completed("send.2", result=b'{"n":7}'))
    here = _here(pending(flow), flow)
    assert [here.is_needed(StepName(name)) for name in ("send.0", "send.1", "send.2")] == [False, False, True]
    assert here.request(THIRD) == {"item": 3, "after": []}
    undone = replace(begun, task=replace(begun.task, direction=Direction.UNDO))
    assert _here(undone, flow).request(THIRD) == {"item": 3, "of": 7}


@pytest.mark.parametrize("items", [[1, 2], [1, 2, 3, 4], range(10**15), [3, 2, 1]])
def test_task_with_other_items_than_the_definition_gives_waits(items: Iterable[int]) -> None:
    """Or in another order: nobody can tell which is which, until the right deployment is there."""
    look = _here(pending(FLOW), _fewer(lambda _parcel: items)).look_at(THIRD)
    assert isinstance(look, CannotStart)
    assert look.parks
    assert look.reason == "step 'send' of version 1 of 'parcels' has other items as it is deployed here"


class Night(BaseModel):
    """An item."""

    room: str
    tags: frozenset[str] = frozenset()


class NightToday(Night):
    """The item after a deployment: with an optional field more, which needs no version."""

    breakfast: bool = False


def test_items_are_told_apart_by_what_they_were_given() -> None:
    """In every process: neither the order in a set nor a default that is new counts."""
    one, two = {"room": "1", "tags": ["a", "b"]}, {"room": "2", "tags": ["b"]}
    digests = {
        items_digest([model.model_validate(each) for each in (one, two)]) for model in (Night, NightToday)
    }
    assert digests == {items_digest([one, two])}
    assert items_digest([two, one]) not in digests
    assert items_digest([SecretStr("a")]) != items_digest([SecretStr("b")])


@pytest.mark.parametrize("deployed", [step("send", undo=True), each("other")])
def test_task_whose_step_is_deployed_otherwise_waits(deployed: Step) -> None:
    """As after any change of a version in place."""
    look = _here(pending(FLOW), workflow(deployed)).look_at(THIRD)
    assert isinstance(look, CannotStart)
    assert look.parks


def test_plain_step_that_was_made_one_for_each_item_waits() -> None:
    """Its functions would ask for an item."""
    record = told(pending(trip()), claimed())
    flow = trip()
    flight = replace(each("flight", undo=True), name=StepName("flight"))
    changed = replace(flow, steps=(flight, *flow.steps[1:]))
    look = _here(record, changed).look_at(StepName("flight"))
    assert isinstance(look, CannotStart)
    assert look.parks


def test_refused_item_is_named() -> None:
    """With its number."""
    flow = workflow(each("send", via=Way.QUEUE))
    assert told(pending(flow), claimed(), *refused("send.1")).task.last_error == "send.1: no money"
