"""Workflows of five steps in order, and of steps that the tests hold."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.ports import AgentCall
from functions.pattern.states import Way
from functions.workflows.registration import Registration

#: The Agents of steps that cost nothing, and of steps that tests hold.
PLAIN, HELD = "plain", "held"
#: Seconds that a step may take: longer than any machine needs, the host's restart included.
_COMPLETE_WITHIN = 60


class Load(BaseModel):
    """A minimal payload."""

    model_config = ConfigDict(extra="forbid")

    weight: int


class _InProcessAgent:
    """Calls no service."""

    async def do(self, call: AgentCall) -> Json:  # noqa: ARG002 - an Agent's interface
        """Return an empty result."""
        return {}


def _request(load: Load, _results: Mapping[StepName, Json]) -> Json:
    return {"weight": load.weight}


def _step(
    name: str,
    *needs: str,
    agent: str = PLAIN,
    via: Way = Way.ACTIVITY,
    idempotent: bool = True,
    seconds: float,
) -> Step:
    return Step(
        StepName(name),
        agent=agent,
        request=_request,
        complete_within=seconds,
        needs=frozenset(map(StepName, needs)),
        idempotent=idempotent,
        via=via,
    )


def _workflow(name: str, *steps: Step) -> Workflow:
    return Workflow(name=name, resource=name, payload=Load, steps=steps)


#: Five steps in order.
LINE = _workflow(
    "line",
    *(_step(f"s{number}", *[f"s{number - 1}"][:number], seconds=_COMPLETE_WITHIN) for number in range(5)),
)
#: A step that is held, and beside it one behind a queue, whose reply makes a third ready.
FORK = _workflow(
    "fork",
    _step("held", agent=HELD, seconds=_COMPLETE_WITHIN),
    _step("paid", agent="payment", via=Way.QUEUE, seconds=_COMPLETE_WITHIN),
    _step("after", "paid", seconds=_COMPLETE_WITHIN),
)
#: A held step, and one that follows.
TWICE = _workflow(
    "twice",
    _step("held", agent=HELD, seconds=_COMPLETE_WITHIN),
    _step("after", "held", seconds=_COMPLETE_WITHIN),
)
#: A held step that must not be repeated.
ONCE = _workflow("once", _step("held", agent=HELD, idempotent=False, seconds=10))

_AGENTS = {PLAIN: lambda _: _InProcessAgent()}
REGISTRATIONS = tuple(Registration(each, _AGENTS) for each in (LINE, FORK, TWICE, ONCE))
