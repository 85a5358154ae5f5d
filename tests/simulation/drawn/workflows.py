"""Draws workflows: graphs of any shape, of steps of every way and kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from functions.pattern.definition import Condition, Default, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Expiry, Remedy, Way
from functions.workflows.registration import Registration
from tests.simulation.drawn import parcels

#: Steps of a workflow, with their weights: most are small, some are as wide as they get.
_SIZES = ((1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 40), (4, 6, 8, 8, 7, 6, 4, 3, 2, 1, 1, 1))
_WAYS = (
    (Way.ACTIVITY, Way.QUEUE, Way.EVENT, Way.TIMER, Way.WORKFLOW),
    (64, 18, 7, 6, 5),
)
_REMEDIES = (Remedy.HOLD, Remedy.COMPENSATE)
#: From so many steps on, the part of workflows that are wide, and of those that do not need the first step.
_LARGE, _WIDE_PART, _AT_ONCE_PART = 20, 0.5, 0.5
#: Services that steps share.
AGENTS = ("red", "green", "blue", "white")
#: The one Agent that has a queue.
QUEUED_AGENT = "payment"
CHILD = "child"


def draw_workflows(chance: Random) -> tuple[Registration, ...]:
    """Draw one or two workflows, and the one that is a step of others."""
    child = _workflow(chance, CHILD, _size(chance, most=3), ways=(Way.ACTIVITY, Way.QUEUE))
    drawn = [_workflow(chance, f"w{number}", _size(chance)) for number in range(chance.choice((1, 1, 1, 2)))]
    return tuple(Registration(each) for each in (*drawn, child))


def draw_next(chance: Random, registrations: Sequence[Registration]) -> tuple[Registration, ...]:
    """Draw the next version of the first workflow, beside what is there; no step of it waits for anybody."""
    first, *others = registrations
    ways = (Way.ACTIVITY, Way.QUEUE, Way.TIMER)
    drawn = _workflow(chance, f"{first.workflow.name}b", _size(chance, most=8), ways)
    following = replace(drawn, name=first.workflow.name, resource=first.workflow.resource, version=2)
    return (Registration(following, older=first.versions), *others)


def widen(chance: Random, registrations: Sequence[Registration]) -> tuple[Registration, ...]:
    """Have steps of some large workflows need nothing, or only the first one: all are ready at once."""
    return tuple(
        Registration(_wide(each.workflow, at_once=chance.random() < _AT_ONCE_PART))
        if len(each.workflow.steps) >= _LARGE and chance.random() < _WIDE_PART
        else each
        for each in registrations
    )


def _wide(workflow: Workflow, *, at_once: bool) -> Workflow:
    first, *others = workflow.steps
    needs = frozenset[StepName]() if at_once else frozenset({first.name})
    steps = (replace(first, needs=frozenset()), *(replace(each, needs=needs) for each in others))
    return replace(workflow, steps=steps)


def _size(chance: Random, most: int = 40) -> int:
    return min(most, chance.choices(*_SIZES)[0])


def _workflow(chance: Random, name: str, size: int, ways: tuple[Way, ...] | None = None) -> Workflow:
    width = chance.choice((1, 2, 4, size))
    steps: list[Step] = []
    for number in range(size):
        before = [each.name for each in steps]
        needs = chance.sample(before, min(len(before), chance.randint(0, 3)))
        if before and width == 1:
            needs.append(before[-1])
        via = chance.choices(*_WAYS)[0] if ways is None else chance.choice(ways)
        step = _step(chance, f"{name}-{number}", number, via)
        steps.append(replace(step, needs=frozenset(map(StepName, needs))))
    return Workflow(
        name=name,
        resource=f"{name}s",
        payload=parcels.DrawnParcel,
        steps=tuple(steps),
        on_failure=chance.choice(_REMEDIES),
        on_exhausted=chance.choice(_REMEDIES),
        cancel_within=600 if any(each.undo for each in steps) else None,
    )


def _step(chance: Random, name: str, number: int, via: Way) -> Step:
    match via:
        case Way.EVENT:
            return _event(chance, name, number)
        case Way.TIMER:
            after = chance.choice((0, 5, 50, 90, 300))
            step = Step(StepName(name), via=via, until=parcels.goes_off(after))
        case Way.WORKFLOW:
            step = Step(
                StepName(name),
                via=via,
                workflow=CHILD,
                request=parcels.request_for_child,
                complete_within=3_600,
                on_failure=_remedy(chance),
            )
        case _:
            return _calling(chance, name, number, via)
    return replace(step, when=_condition(chance, number))


def _remedy(chance: Random) -> Remedy | None:
    return chance.choice((None, None, None, None, Remedy.CONTINUE, *_REMEDIES))


def _condition(chance: Random, number: int) -> Condition | None:
    return parcels.is_wanted(number) if chance.random() < 0.15 else None


def _event(chance: Random, name: str, number: int) -> Step:
    expiry = chance.choice((Expiry.REFUSE, Expiry.HOLD, Default({"yes": False})))
    return Step(
        StepName(name),
        via=Way.EVENT,
        payload=parcels.Told,
        complete_within=chance.choice((60, 120, 300)),
        on_expiry=expiry,
        on_failure=_remedy(chance) if expiry is Expiry.REFUSE else None,
        role="Submitter",
        when=_condition(chance, number),
    )


def _calling(chance: Random, name: str, number: int, via: Way) -> Step:
    """Draw a step that an Agent carries out, perhaps for each item."""
    is_queued = via is Way.QUEUE
    step = Step(
        StepName(name),
        agent=QUEUED_AGENT if is_queued else chance.choice(AGENTS),
        request=parcels.request,
        complete_within=chance.choice((30, 45, 60) if is_queued else (15, 30, 60)),
        via=via,
        undo=chance.random() < 0.6,
        idempotent=chance.random() < 0.85,
        on_failure=_remedy(chance),
        when=_condition(chance, number),
    )
    if chance.random() >= 0.1:
        return step
    return replace(
        step,
        for_each=parcels.items,
        request=parcels.request_for_item,
        when=None if step.when is None else parcels.is_wanted_for_item(number),
        at_once=chance.choice((1, 2, 16)),
    )
