"""Three steps a → b → c, in a workflow that is undone and in one that is held for an operator."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Remedy, Way
from functions.workflows.registration import Registration
from tests.fakes import orders

STEPS = ("a", "b", "c")

#: Seconds that a step may take: long enough for a busy machine; recoveries follow at this interval.
COMPLETE_WITHIN = 5.0

#: The same for a step that must not be repeated, and for the next: longer than a service that answers late.
ONCE_WITHIN = 20.0

#: What these tests order.
CARGO = {"weight": 3}


class Cargo(BaseModel):
    """A minimal payload."""

    model_config = ConfigDict(extra="forbid")

    weight: int


def _request(cargo: Cargo, _results: Mapping[StepName, Json]) -> Json:
    return {"weight": cargo.weight}


def _chain(name: str, resource: str, remedy: Remedy) -> Workflow:
    return Workflow(
        name=name,
        resource=resource,
        payload=Cargo,
        on_failure=remedy,
        on_exhausted=remedy,
        steps=tuple(
            Step(
                StepName(step),
                agent=step,
                request=_request,
                complete_within=COMPLETE_WITHIN,
                needs=frozenset(map(StepName, STEPS[:number][-1:])),
                undo=True,
            )
            for number, step in enumerate(STEPS)
        ),
    )


UNDONE = _chain("undone", "undone", Remedy.COMPENSATE)
HELD = _chain("held", "held", Remedy.HOLD)


def _broken_request(_cargo: Cargo, _results: Mapping[StepName, Json]) -> Json:
    raise RuntimeError("\U0001f600\x00" * 100_000)


#: Its first step can't be asked for.
BROKEN = Workflow(
    name="broken",
    resource="broken",
    payload=Cargo,
    steps=(Step(StepName("a"), agent="a", request=_broken_request, complete_within=COMPLETE_WITHIN),),
)


def _once(step: str, via: Way) -> Workflow:
    """Make a workflow whose first step must not be repeated."""
    first = StepName(step)
    return Workflow(
        name=f"by-{via}",
        resource=f"by-{via}",
        payload=Cargo,
        steps=(
            Step(first, agent=step, request=_request, complete_within=ONCE_WITHIN, idempotent=False, via=via),
            Step(StepName("c"), "c", _request, ONCE_WITHIN, needs=frozenset({first}), undo=True),
        ),
    )


ONCE = {"a": _once("a", Way.ACTIVITY), "payment": _once("payment", Way.QUEUE)}
REGISTRATIONS = (
    *map(Registration, ONCE.values()),
    Registration(UNDONE),
    Registration(HELD),
    Registration(BROKEN),
    orders.REGISTRATION,
)
