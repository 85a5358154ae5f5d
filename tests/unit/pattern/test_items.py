"""A step for each item: its definition, its order of starts, its results, and its replies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from functions.pattern.cannot_start import CannotStart
from functions.pattern.definition import Registry, Step, Workflow
from functions.pattern.errors import UnfitOrderError
from functions.pattern.events import Event
from functions.pattern.identity import StepName, effect_key, resource_of, start_of
from functions.pattern.inputs import all_results, results_of, undo_results_of
from functions.pattern.items import items_digest
from functions.pattern.late import replied_step
from functions.pattern.readiness import Definitions
from functions.pattern.ready import ready_steps, undo_order
from functions.pattern.records import TaskRecord
from functions.pattern.shape import read_shape
from functions.pattern.states import Direction, ProcessState, Remedy, Way
from tests.fakes.interventions import done, found_not_done, giving_up, recovery, refused
from tests.fakes.tasks import SECOND, claimed, completed, pending, skipped, started, told
from tests.fakes.workflows import each, order, step, trip, workflow

FLOW = workflow(step("open"), each("send", "open", undo=True), step("close", "send"))
SENT = ("send.0", "send.1", "send.2")


def _begun(of: Workflow, *events: Event, weight: int = 3) -> TaskRecord:
    return told(pending(of, weight=weight), claimed(), *events)


def _of(*steps: Step) -> Workflow:
    return workflow(*steps, remedy=Remedy.COMPENSATE)


def test_task_has_a_step_for_each_item() -> None:
    """In the place of the defined one; its shape stays that of the definition."""
    record = pending(FLOW)
    assert [each.name for each in record.steps] == ["open", *SENT, "close"]
    assert record.order.items == (3,)
    assert record.order.shape == read_shape(FLOW.shape.written)
    # Each item has an effect of its own.
    resource = order(FLOW).resource
    key = effect_key(resource, StepName("send.2"), Direction.DO)
    assert key == "task-1.0a1b2c3d/send.2/do"
    assert resource_of(key) == "task-1.0a1b2c3d.2"
    assert resource_of(effect_key(resource, StepName("open"), Direction.DO)) == resource


def test_items_do_not_wait_for_one_another() -> None:
    """They wait for what their step needs."""
    assert ready_steps(_begun(FLOW)) == ("open",)
    assert ready_steps(_begun(FLOW, *done("open"))) == SENT
    # What needs the step waits for all items.
    two = _begun(FLOW, *done("open", "send.1", "send.0"))
    assert ready_steps(two) == ("send.2",)
    assert ready_steps(told(two, skipped("send.2"))) == ("close",)


def test_without_items_a_step_waits_for_what_they_would_have_waited_for() -> None:
    """Also through a second step without items."""
    two = workflow(step("open"), each("send", "open"), each("call", "send"), step("close", "call"))
    for flow in (FLOW, two):
        assert ready_steps(_begun(flow, weight=0)) == ("open",)
        assert ready_steps(_begun(flow, *done("open"), weight=0)) == ("close",)
    # Task of nothing but items is processed at once without any.
    record = _begun(workflow(each("send")), weight=0)
    assert record.task.process_state is ProcessState.PROCESSED
    assert all_results(record) == {"send": []}


def test_only_so_many_items_run_at_once() -> None:
    """Whoever runs them; an item that is done makes room for the next."""
    flow = workflow(each("send", at_once=2), step("other"))
    record = _begun(flow, weight=4)
    assert ready_steps(record) == ("send.0", "send.1", "other")
    record = told(record, started("send.0"), started("send.1", activity=2))
    assert ready_steps(record) == ("other",)
    assert ready_steps(told(record, completed("send.1"))) == ("send.2", "other")
    # Item of an older epoch takes no room.
    flow = workflow(each("send", at_once=1))
    begun = _begun(flow, started("send.0"))
    again = told(begun, recovery(), claimed(SECOND), now=begun.task.due_at)
    assert ready_steps(again) == ("send.0",)
    assert ready_steps(told(again, started("send.0", SECOND, activity=2))) == ()


def test_result_is_the_list_of_the_items_results() -> None:
    """In order, whichever was done first; None for one that was skipped, or may fail and did."""
    flow = workflow(each("send", on_failure=Remedy.CONTINUE), step("close", "send"))
    ends = [started("send.3"), completed("send.3", result=b'{"n":3}'), skipped("send.1"), *refused("send.2")]
    record = _begun(flow, *ends, started("send.0"), completed("send.0", result=b'{"n":0}'), weight=4)
    assert results_of(record, StepName("close")) == {"send": [{"n": 0}, None, None, {"n": 3}]}
    assert all_results(record)[StepName("close")] is None


def test_undo_of_an_item_gets_its_own_result() -> None:
    """Beside what its step needs."""
    record = _begun(
        FLOW, *done("open"), started("send.1"), completed("send.1", result=b'{"n":1}'), started("send.0")
    )
    assert undo_results_of(record, StepName("send.1")) == {"open": {}, "send": {"n": 1}}
    assert undo_results_of(record, StepName("send.0")) == {"open": {}, "send": None}
    # Items are undone in reverse order of dispatch.
    flow = _of(step("open", undo=True), each("send", "open", undo=True))
    record = _begun(flow, *done("open", "send.2"), started("send.0"), *refused("send.1"))
    assert record.task.direction is Direction.UNDO
    assert undo_order(record) == ("send.1", "send.0", "send.2", "open")


def test_order_with_too_many_items_is_refused() -> None:
    """Steps and items together: the steps without items count, too."""
    assert len(pending(FLOW, weight=88).steps) == 90
    with pytest.raises(UnfitOrderError, match="more than 90 steps"):
        order(FLOW, weight=89)
    with pytest.raises(UnfitOrderError, match="more than 90 steps"):
        order(FLOW, weight=10**4)
    # An order is refused if `for_each` raises.
    broken = replace(each("send"), for_each=lambda parcel: parcel.nothing)
    with pytest.raises(UnfitOrderError, match=r"^The items of its step 'send' can't be told\.$"):
        order(workflow(broken))
    # Items that do not fit the shape are damage.
    with pytest.raises(ValueError, match="zip"):
        assert replace(order(FLOW), items=()).steps
    with pytest.raises(ValueError, match="zip"):
        assert replace(order(workflow(step("open"))), items=(1,)).steps


THIRD = StepName("send.2")
UNDOABLE = workflow(each("send", undo=True))


def test_function_whose_arguments_nobody_knows_is_taken() -> None:
    """As some are that are built in."""
    assert workflow(replace(step("send"), when=max)).steps[0].when is max


def test_sixteen_items_run_at_once_unless_it_says_otherwise() -> None:
    """It is recorded with the task; a plain step has no such limit."""
    flow = workflow(each("send"), each("call", at_once=3), step("close"))
    assert [shape.at_once for shape in flow.shape.steps] == [16, 3, None]


def _here(record: TaskRecord, deployed: Workflow = UNDOABLE) -> Definitions:
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
    look = _here(pending(UNDOABLE), _fewer(lambda _parcel: items)).look_at(THIRD)
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
    look = _here(pending(UNDOABLE), workflow(deployed)).look_at(THIRD)
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
    # Refused item is named.
    flow = workflow(each("send", via=Way.QUEUE))
    assert told(pending(flow), claimed(), *refused("send.1")).task.last_error == "send.1: no money"


QUEUED_ITEMS = workflow(step("open"), each("send", via=Way.QUEUE, idempotent=False))
SEND = StepName("send")


def _begun_again() -> TaskRecord:
    """Begin an item once more, after an operator has found that it was not done."""
    first = started("send.1", token="first", start_id=start_of("first"))
    record = told(pending(QUEUED_ITEMS), claimed(), first)
    record = told(record, giving_up(hold=True), found_not_done("send.1"), now=first.complete_by)
    again = started("send.1", SECOND, token="second", start_id=start_of("second"), complete_by=90)
    return told(record, claimed(SECOND), again, now=first.complete_by)


@pytest.mark.parametrize(
    ("token", "item"), [("second", "send.1"), ("first", "send.1"), ("stranger", "send.0")]
)
def test_item_is_known_by_the_token_of_any_of_its_requests(token: str, item: str) -> None:
    """Of a token that none had, it is the first: its own token then shows that the reply is not its."""
    assert replied_step(_begun_again(), SEND, token) == item
    # Token of another step tells nothing.
    assert replied_step(_begun_again(), StepName("open"), "second") == "open"
    assert replied_step(_begun_again(), StepName("close"), "second") is None
