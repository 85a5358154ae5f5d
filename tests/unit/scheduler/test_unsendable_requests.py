"""A request that can't be sent is a defect of its definition, over activity and queue; nobody refused it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.definition import RequestMaker, Step
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind, Direction, Remedy, StepState, Way
from functions.pattern.transitions import apply
from tests.fakes.interventions import undo_request
from tests.fakes.tasks import claimed, completed, failed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.bench import Bench, over
from tests.unit.scheduler.test_parking import Deployed

TOO_LONG = {"text": "x" * 65_536}

UNSENDABLE = [
    ({"amount": float("nan")}, "its request can't be written as JSON: request.amount is nan"),
    ({"tags": {"a"}}, "its request can't be written as JSON: request.tags is of type set"),
    ({"amount": Decimal(5)}, "its request can't be written as JSON: request.amount is of type Decimal"),
    ({1: "a"}, "its request can't be written as JSON: a field's name is of type int, not str"),
    (TOO_LONG, "its request has 65548 bytes; at most 65536 can be sent"),
    (None, "its request is of type NoneType, not a dict"),
    ([1], "its request is of type list, not a dict"),
    ("pay", "its request is of type str, not a dict"),
]


def _gives(made: Any) -> RequestMaker:
    return lambda _payload, _results: made


def _pay(made: Any, via: Way = Way.ACTIVITY) -> Step:
    return replace(step("pay", "pick", undo=True, via=via), request=_gives(made))


@pytest.mark.parametrize("via", Way)
@pytest.mark.parametrize(("made", "reason"), UNSENDABLE, ids=lambda each: type(each).__name__)
async def test_request_that_cannot_be_sent_holds_the_task_at_once(made: Any, reason: str, via: Way) -> None:
    """Nothing was sent, so nothing is undone, whatever the remedy; operators are alerted with the cause."""
    of = workflow(step("pick", undo=True), _pay(made, via), remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    assert await bench.run() == over("Error")
    assert (bench.agents.steps, bench.requests.sent) == (["pick"], [])
    assert (bench.step("pay").state, bench.step("pay").error) == (StepState.FAILED, reason)
    record = bench.store.record(TASK)
    assert record.task.last_error == f"pay: {reason}"
    before = told(pending(of), claimed(), started("pick"), completed("pick"))
    [alert] = announcements(before, record)
    assert (alert.kind, alert.reason) == (AnnouncementKind.ALERT, f"pay: {reason}")


async def test_step_whose_request_was_never_sent_is_not_undone_either() -> None:
    """An operator who gives up has undone what was done, and nothing more."""
    bench = Bench(workflow(step("pick", undo=True), _pay(None), remedy=Remedy.COMPENSATE))
    await bench.run()
    undoing = apply(bench.store.record(TASK), undo_request(), bench.clock.now())
    assert isinstance(undoing, TaskRecord)
    bench.store.put(undoing)
    assert await bench.run(epoch=2) == over("Compensated")
    assert bench.agents.steps == ["pick", "pick undo"]


@pytest.mark.parametrize("via", Way)
async def test_under_another_shape_it_parks(via: Way) -> None:
    """The definition was changed under the task, which waits for its own."""
    sound = workflow(step("pick"), _pay({}, via))
    bench = Deployed(sound, replace(sound, steps=(step("pick"), _pay(None, via), step("send"))))
    assert await bench.run() == over("Pending")
    assert bench.is_parked
    assert bench.store.record(TASK).task.last_error == (
        "version 1 of 'parcels' as it is deployed here is not the recorded one;"
        " step 'pay': its request is of type NoneType, not a dict"
    )


@pytest.mark.parametrize("via", Way)
@pytest.mark.parametrize(("made", "reason"), UNSENDABLE, ids=lambda each: type(each).__name__)
async def test_undo_that_cannot_be_sent_is_held_as_a_refused_undo_is(
    made: Any, reason: str, via: Way
) -> None:
    """What is left undone stays to be undone."""
    pick = replace(step("pick", undo=True, via=via), undo_request=_gives(made))
    of = workflow(pick, step("pay"), remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    done = (started("pick"), completed("pick"))
    bench.store.put(told(pending(of), claimed(), *done, started("pay"), failed("pay")))
    assert bench.store.record(TASK).task.direction is Direction.UNDO
    assert await bench.run(epoch=2) == over("Error")
    assert (bench.agents.calls, bench.requests.sent) == ([], [])
    assert bench.store.record(TASK).task.last_error == f"undo of pick: {reason}"
    assert bench.step("pick").needs_undo
