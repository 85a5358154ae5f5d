"""Chains of three steps a → b → c by failure policy, and workflows with a step that must not be repeated."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from functions.workflow import Json, QueueStep, Results, Step, Workflow
from functions.workflows.registry import Registration, load_registration

STEPS = ("a", "b", "c")

#: Seconds that a step may take: long enough for a busy machine; recoveries follow at this interval.
COMPLETE_WITHIN = 5.0

#: The same for a step that must not be repeated, and for the next: longer than a service that answers late.
ONCE_WITHIN = 20.0

#: The payload of all workflows here.
CARGO = {"weight": 3}


class Cargo(BaseModel):
    """A minimal payload."""

    model_config = ConfigDict(extra="forbid")

    weight: int


class Receipt(BaseModel):
    """The result of a step that must not be repeated."""

    receipt: str | None = None


def _request(cargo: Cargo, _results: Results) -> Json:
    return {"weight": cargo.weight}


def _broken_request(_cargo: Cargo, _results: Results) -> Json:
    raise RuntimeError("\U0001f600\x00" * 100_000)


_CHAIN = [
    Step(name, needs=STEPS[:number][-1:], request=_request, complete_within=COMPLETE_WITHIN, undo=True)
    for number, name in enumerate(STEPS)
]
UNDONE = Workflow("undone", payload=Cargo, steps=_CHAIN, on_failure="compensate", on_exhausted="compensate")
KEPT = Workflow("kept", payload=Cargo, steps=_CHAIN, on_failure="keep", on_exhausted="keep")
#: The request of its first step cannot be made.
BROKEN = Workflow("broken", payload=Cargo, steps=[Step("a", request=_broken_request)])

_ONCE = {
    "a": Step("a", request=_request, result=Receipt, complete_within=ONCE_WITHIN, idempotent=False),
    "payment": QueueStep(
        "payment", request=_request, result=Receipt, complete_within=ONCE_WITHIN, idempotent=False
    ),
}
#: Workflows whose first step must not be repeated, by its name: by call, and by queue.
ONCE = {
    name: Workflow(
        f"by-{first.step_type}",
        payload=Cargo,
        steps=[first, Step("c", needs=[first], request=_request, complete_within=ONCE_WITHIN, undo=True)],
    )
    for name, first in _ONCE.items()
}
REGISTRATIONS = (*map(Registration, (UNDONE, KEPT, BROKEN, *ONCE.values())), load_registration("orders"))
