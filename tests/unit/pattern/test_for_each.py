"""A step for each item: a task has one step for each, and what needs it waits for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.definition import Step, Workflow
from functions.pattern.errors import UnfitOrderError
from functions.pattern.events import Event
from functions.pattern.identity import StepName, effect_key, resource_of
from functions.pattern.inputs import all_results, results_of, undo_results_of
from functions.pattern.ready import ready_steps, undo_order
from functions.pattern.records import TaskRecord
from functions.pattern.shape import read_shape
from functions.pattern.states import Direction, ProcessState, Remedy
from tests.fakes.interventions import done, recovery, refused
from tests.fakes.tasks import SECOND, claimed, completed, pending, skipped, started, told
from tests.fakes.workflows import each, order, step, workflow

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


def test_items_do_not_wait_for_one_another() -> None:
    """They wait for what their step needs."""
    assert ready_steps(_begun(FLOW)) == ("open",)
    assert ready_steps(_begun(FLOW, *done("open"))) == SENT


def test_what_needs_the_step_waits_for_all_items() -> None:
    """Done, or not needed."""
    two = _begun(FLOW, *done("open", "send.1", "send.0"))
    assert ready_steps(two) == ("send.2",)
    assert ready_steps(told(two, skipped("send.2"))) == ("close",)


def test_without_items_a_step_waits_for_what_they_would_have_waited_for() -> None:
    """Also through a second step without items."""
    two = workflow(step("open"), each("send", "open"), each("call", "send"), step("close", "call"))
    for flow in (FLOW, two):
        assert ready_steps(_begun(flow, weight=0)) == ("open",)
        assert ready_steps(_begun(flow, *done("open"), weight=0)) == ("close",)


def test_task_of_nothing_but_items_is_processed_at_once_without_any() -> None:
    """As soon as it is claimed; its result is an empty list."""
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


def test_item_of_an_older_epoch_takes_no_room() -> None:
    """It is dispatched again itself."""
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


def test_items_are_undone_in_reverse_order_of_dispatch() -> None:
    """Those that were dispatched, also the one whose outcome is unknown."""
    flow = _of(step("open", undo=True), each("send", "open", undo=True))
    record = _begun(flow, *done("open", "send.2"), started("send.0"), *refused("send.1"))
    assert record.task.direction is Direction.UNDO
    assert undo_order(record) == ("send.1", "send.0", "send.2", "open")


def test_each_item_has_an_effect_of_its_own() -> None:
    """Under its own key, and at a path of its own."""
    resource = order(FLOW).resource
    key = effect_key(resource, StepName("send.2"), Direction.DO)
    assert key == "task-1.0a1b2c3d/send.2/do"
    assert resource_of(key) == "task-1.0a1b2c3d.2"
    assert resource_of(effect_key(resource, StepName("open"), Direction.DO)) == resource


def test_order_with_too_many_items_is_refused() -> None:
    """Steps and items together: the steps without items count, too."""
    assert len(pending(FLOW, weight=88).steps) == 90
    with pytest.raises(UnfitOrderError, match="more than 90 steps"):
        order(FLOW, weight=89)
    with pytest.raises(UnfitOrderError, match="more than 90 steps"):
        order(FLOW, weight=10**4)


def test_order_whose_items_can_t_be_told_is_refused() -> None:
    """With the step, and without what the function said."""
    broken = replace(each("send"), for_each=lambda parcel: parcel.nothing)
    with pytest.raises(UnfitOrderError, match=r"^The items of its step 'send' can't be told\.$"):
        order(workflow(broken))


def test_items_that_do_not_fit_the_shape_are_damage() -> None:
    """Whoever reads the record hears of it."""
    with pytest.raises(ValueError, match="zip"):
        assert replace(order(FLOW), items=()).steps
    with pytest.raises(ValueError, match="zip"):
        assert replace(order(workflow(step("open"))), items=(1,)).steps
