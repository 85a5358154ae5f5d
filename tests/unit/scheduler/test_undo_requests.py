"""An undo gets what the do gave, and the request that its step makes for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.agent_messages import AgentRequest
from functions.pattern.definition import Json, Results, Step
from functions.pattern.events import Event
from functions.pattern.identity import StepName
from functions.pattern.states import Direction, Remedy, Way
from tests.fakes.tasks import claimed, completed, failed, pending, started, told
from tests.fakes.workflows import Parcel, step, workflow
from tests.unit.scheduler.bench import Bench

BOOKED: list[Event] = [started("flight"), completed("flight", result=b'{"seat":"4A"}')]
CHARGED: list[Event] = [started("charge"), completed("charge", result=b'{"payment":"P-1"}')]
REFUSED: list[Event] = [started("charge"), failed("charge")]


def _refund(parcel: Parcel, results: Results) -> Json:
    charged = results[StepName("charge")]
    return {"weight": parcel.weight, "seat": results[StepName("flight")]["seat"], "charged": charged}


def _undoing(charge: Step, *outcome: Event) -> Bench:
    """Let the undo of a flight and its charge begin."""
    of = workflow(step("flight"), charge, step("mail", "charge"), remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    record = told(pending(of), claimed(), *BOOKED, *outcome)
    ends: list[Event] = [] if record.task.direction is Direction.UNDO else [started("mail"), failed("mail")]
    bench.store.put(told(record, *ends))
    return bench


CHARGE = replace(step("charge", "flight", undo=True), undo_request=_refund)


@pytest.mark.parametrize(
    ("outcome", "result"), [(CHARGED, {"payment": "P-1"}), (REFUSED, None)], ids=["known", "unknown"]
)
async def test_undo_gets_what_the_do_gave(outcome: list[Event], result: Json | None) -> None:
    """In the call, and in what the step's `undo_request` makes its request of."""
    bench = _undoing(CHARGE, *outcome)
    await bench.run(epoch=2)
    [call] = bench.agents.calls
    assert call.result == result
    assert call.request == {"weight": 3, "seat": "4A", "charged": result}


async def test_without_a_request_of_its_own_an_undo_gets_that_of_the_do() -> None:
    """As its Agent knows it."""
    bench = _undoing(replace(CHARGE, undo_request=None), *CHARGED)
    await bench.run(epoch=2)
    [call] = bench.agents.calls
    assert (call.request, call.result) == ({"weight": 3, "after": ["flight"]}, {"payment": "P-1"})


async def test_do_gets_no_result() -> None:
    """Also when an older epoch has left one."""
    bench = Bench(workflow(step("flight")))
    await bench.run()
    assert [call.result for call in bench.agents.calls] == [None]


async def test_agent_behind_a_queue_gets_the_same() -> None:
    """In the request on its queue."""
    bench = _undoing(replace(CHARGE, via=Way.QUEUE), *CHARGED)
    await bench.run(epoch=2)
    [(_, request)] = bench.requests.sent
    assert isinstance(request, AgentRequest)
    assert (request.direction, request.result) == (Direction.UNDO, {"payment": "P-1"})
    assert request.request == {"weight": 3, "seat": "4A", "charged": {"payment": "P-1"}}
