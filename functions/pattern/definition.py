"""How a workflow is defined: a name, a resource, a payload and its steps; and where definitions are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Any

from pydantic import BaseModel

from functions.pattern import written
from functions.pattern.depth import check_depth
from functions.pattern.errors import DefinitionError, UnfitOrderError
from functions.pattern.identity import StepName
from functions.pattern.items import MOST_STEPS, items_digest, read_items
from functions.pattern.shape import MAX_SHAPE_BYTES, Shape, StepShape
from functions.pattern.states import Remedy, Way
from functions.pattern.step_definition import (
    NAME_PATTERN,
    STEP_PATTERN,
    Condition,
    Default,
    Items,
    Json,
    RequestMaker,
    Results,
    Step,
    read_step,
    shape_of,
)

#: A workflow's definition imports all it needs from here.
__all__ = [
    "NAME_PATTERN",
    "STEP_PATTERN",
    "Condition",
    "Default",
    "Json",
    "Registry",
    "RequestMaker",
    "Results",
    "Step",
    "Workflow",
]

#: Makes what the caller is answered when the task is processed, out of the payload and all results.
AnswerMaker = Callable[[Any, Results], Json]

#: Gives a few short texts of the payload, by which operators find a task.
Finder = Callable[[Any], Iterable[str | None]]

#: The fields a submission carries beside the payload; a payload can't use their names.
ENVELOPE_FIELDS = frozenset({"id", "reply_to", "correlation_id"})

#: What the application itself serves below `/api/`: no workflow's resource can have these names.
RESERVED_RESOURCES = frozenset({"docs", "health", "openapi", "ops", "services"})

_NAME = re.compile(NAME_PATTERN)

#: What only a step can say about a failure.
_OF_STEPS = frozenset({Remedy.CONTINUE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A set of steps that must succeed as a whole. Raises `DefinitionError` when it can't work.

    `on_failure` is for a step that is refused, `on_exhausted` for recoveries that are used up. Lists may
    stand for tuples and sets, and texts for the members of enums.

    `answer` is pure; without it, a caller sees nothing of the results. `noun` is what callers call one of the
    `resource`; it is `name` unless given. They can cancel one while it is under way, and `cancel_within`
    seconds after it was processed. `find_by` is pure; operators find a task by each of the texts it gives.
    """

    name: str
    resource: str
    payload: type[BaseModel]
    steps: tuple[Step, ...]
    on_failure: Remedy = Remedy.HOLD
    on_exhausted: Remedy = Remedy.HOLD
    version: int = 1
    answer: AnswerMaker | None = None
    noun: str = ""
    cancel_within: float | None = None
    find_by: Finder | None = None
    #: What a task of this workflow is made of, as it is recorded with the task.
    shape: Shape = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._read_fields()
        self._check_names()
        self._check_version()
        self._check_needs()
        self._set_shape()
        if self.resource in RESERVED_RESOURCES:
            taken = ", ".join(sorted(RESERVED_RESOURCES))
            raise self._error(
                f"resource '{self.resource}' must be renamed: the application itself has {taken}"
            )
        for taken in sorted(ENVELOPE_FIELDS & written.sent_names(self.payload)):
            raise self._error(f"payload field '{taken}' is taken by the submission itself; rename it")

    def step(self, name: StepName) -> Step:
        """Find a step by its name. Raises `KeyError` when there is none."""
        return {step.name: step for step in self.steps}[name]

    def count_items(self, payload: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Count the items of an order, and tell which they are, for each for-each step.

        Raises `UnfitOrderError`.
        """
        counted = [self._count(step, step.for_each, payload) for step in self.steps if step.for_each]
        counts = tuple(count for count, _ in counted)
        if self.count_steps(counts) > MOST_STEPS:
            raise UnfitOrderError(
                f"It has too many items: with a step for each, more than {MOST_STEPS} steps."
            )
        return counts, tuple(digest for _, digest in counted)

    def count_steps(self, items: tuple[int, ...]) -> int:
        """Count the steps of a task whose for-each steps have so many items."""
        return len(self.steps) - len(items) + sum(items)

    def _count(self, step: Step, for_each: Items, payload: Any) -> tuple[int, str]:
        try:
            items = read_items(for_each(payload))
            return len(items), items_digest(items)
        except Exception as fault:
            raise UnfitOrderError(f"The items of its step '{step.name}' can't be told.") from fault

    def _read_fields(self) -> None:
        """Replace what may be written in several ways by its one form."""
        try:
            remedies = {
                name: written.member(name, Remedy, getattr(self, name), but=_OF_STEPS)
                for name in ("on_failure", "on_exhausted")
            }
            written.model("payload", self.payload)
            if self.answer is not None:
                written.function("answer", self.answer)
            if self.find_by is not None:
                written.function("find_by", self.find_by, takes=written.PAYLOAD, may_yield=True)
            if self.cancel_within is not None:
                written.seconds("cancel_within", self.cancel_within)
            given = written.tuple_of("steps", Step, self.steps)
        except ValueError as fault:
            raise self._error(str(fault)) from None
        steps = tuple(map(self._read_step, given))
        if self.cancel_within is not None and not any(shape_of(step).undo for step in steps):
            raise self._error("it has cancel_within, but no step that can be undone: add undo=True to one")
        for name, value in {**remedies, "steps": steps, "noun": self.noun or self.name}.items():
            object.__setattr__(self, name, value)

    def _read_step(self, step: Step) -> Step:
        try:
            return read_step(step)
        except ValueError as fault:
            raise self._error(f"step '{step.name}': {fault}") from None

    def _check_names(self) -> None:
        if not 1 <= len(self.steps) <= MOST_STEPS:
            raise self._error(f"it has {len(self.steps)} steps; 1 to {MOST_STEPS} are possible")
        steps = [step.name for step in self.steps]
        names = [("name", self.name), ("resource", self.resource), *(("step name", name) for name in steps)]
        names += [(f"step '{step.name}': agent", step.agent) for step in self.steps if not step.via.waits]
        for what, name in names:
            if not _NAME.fullmatch(name):
                raise self._error(f"{what} '{name}' must match {_NAME.pattern}")
        for number, name in enumerate(steps):
            if name in steps[:number]:
                raise self._error(f"step '{name}' is defined twice")

    def _check_version(self) -> None:
        if type(self.version) is not int or self.version < 1:
            raise self._error(f"version must be a whole number from 1 on, not {self.version!r}")

    def _check_needs(self) -> None:
        names = {step.name for step in self.steps}
        for step in self.steps:
            for unknown in step.needs - names:
                raise self._error(f"step '{step.name}' needs '{unknown}', which is not one of its steps")
        try:
            TopologicalSorter({step.name: step.needs for step in self.steps}).prepare()
        except CycleError as error:
            circle = " → ".join(error.args[1])
            raise self._error(f"its steps need each other in a circle: {circle}") from None

    def _set_shape(self) -> None:
        steps = tuple(map(shape_of, self.steps))
        shape = Shape(
            steps=steps,
            on_failure=self.on_failure,
            on_exhausted=self.on_exhausted,
            cancel_within=self.cancel_within,
        )
        if len(shape.written) > MAX_SHAPE_BYTES:
            raise self._error(f"what is recorded of its steps has more than {MAX_SHAPE_BYTES} bytes")
        object.__setattr__(self, "shape", shape)

    def _error(self, text: str) -> DefinitionError:
        return DefinitionError(f"workflow '{self.name}': {text}")


class Registry:
    """Finds workflows by name and version. `step_seconds` overrides limits of steps, named `workflow.step`.

    Raises `DefinitionError` when it names a timer or an unknown step, or two workflows are not told apart.
    """

    def __init__(self, workflows: tuple[Workflow, ...], step_seconds: Mapping[str, float]) -> None:
        for one, other in combinations(workflows, 2):
            _check_apart(one, other)
        _check_limits(workflows, step_seconds)
        limited = [_limited(each, step_seconds) for each in workflows]
        self._versions = {(each.name, each.version): each for each in limited}
        self._newest = {each.name: each for each in sorted(limited, key=lambda each: each.version)}
        steps = [step for each in limited for step in each.shape.steps]
        self._ways = {(step.agent, step.via, undo) for step in steps for undo in {step.undo, False}}
        check_depth(self._versions.values(), self._newest)

    def __iter__(self) -> Iterator[Workflow]:
        """Give every version of every workflow."""
        return iter(self._versions.values())

    @property
    def newest(self) -> tuple[Workflow, ...]:
        """Give the newest version of each workflow: new submissions take it."""
        return tuple(self._newest[name] for name in dict.fromkeys(name for name, _ in self._versions))

    @property
    def queued_agents(self) -> frozenset[str]:
        """Name the Agents that are reached over queues."""
        steps = (step for workflow in self for step in workflow.steps)
        return frozenset(step.agent for step in steps if step.via is Way.QUEUE)

    def find(self, name: str, version: int | None = None) -> Workflow | None:
        """Give that version of a workflow, or its newest; None when it is not deployed here."""
        return self._newest.get(name) if version is None else self._versions.get((name, version))

    def serves(self, step: StepShape) -> bool:
        """Tell whether a step's Agent is known here, by the step's way, and can undo it if it must."""
        return (step.agent, step.via, step.undo) in self._ways


def _check_apart(one: Workflow, other: Workflow) -> None:
    same_name, same_resource = one.name == other.name, one.resource == other.resource
    if same_name and same_resource:
        if one.version != other.version:
            return
        shared = f"version {one.version} of workflow '{one.name}' is there twice: give one another version"
        raise DefinitionError(shared)
    if same_name:
        shared = f"two workflows have the name '{one.name}' (resources {one.resource}, {other.resource})"
    elif same_resource:
        shared = f"workflows '{one.name}' and '{other.name}' have the resource '{one.resource}'"
    else:
        return
    raise DefinitionError(f"{shared}: rename one of them")


def _check_limits(workflows: Iterable[Workflow], step_seconds: Mapping[str, float]) -> None:
    steps = ((each.name, step) for each in workflows for step in each.steps)
    known = {f"{name}.{step.name}" for name, step in steps if step.via is not Way.TIMER}
    for unknown in sorted(step_seconds.keys() - known):
        its = f"STEP_SECONDS names '{unknown}', which is no step with a complete_within"
        raise DefinitionError(f"{its}; those are {', '.join(sorted(known))}")


def _limited(workflow: Workflow, step_seconds: Mapping[str, float]) -> Workflow:
    steps = tuple(
        replace(step, complete_within=step_seconds.get(f"{workflow.name}.{step.name}", step.complete_within))
        for step in workflow.steps
    )
    return replace(workflow, steps=steps)
