"""The definition of a workflow as it is deployed, and the registry of all deployed versions.

`step_definition.py` has the classes of steps. Limits of time are in seconds.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from itertools import combinations, islice
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from functions.core.definition import definition_checks as checks
from functions.core.definition.defined_step import MOST_STEPS, DefinedStep, digest_of, items_of
from functions.core.definition.definition_checks import DefinitionError
from functions.core.definition.step_definition import BaseStep, Json, Results, StopPolicy
from functions.core.json_values import item_digest
from functions.core.record import FailurePolicy, Order, StepSpec, StepType

#: Seconds of a run before its first call: the gates are read, and the start is recorded, maybe twice.
SECONDS_BEFORE_CALL = 10
#: Steps, Agents and queues of a task: one transaction (100 rows) holds a change of all steps and gates.
_MOST_ROWS = 92
#: A task, its children, and their children.
_MOST_DEPTH = 3
_STOP_POLICIES = (FailurePolicy.COMPENSATE, FailurePolicy.KEEP)
#: Search keys of one order. Each has a row, which is written with the task.
MOST_SEARCH_KEYS = 8
#: Characters of a search text that count.
MOST_SEARCH_CHARACTERS = 100


def search_key(text: str) -> str:
    """Return the key of a search text, which is the same for capital letters and for spaces around it."""
    same = unicodedata.normalize("NFKC", text.strip()[:MOST_SEARCH_CHARACTERS]).casefold().strip()
    return hashlib.sha256(same.encode()).hexdigest()[:32]


class UnfitOrderError(ValueError):
    """An order does not fit its workflow. The text is for the caller."""


class Workflow[P: BaseModel]:
    """One version of a workflow: a set of steps that succeeds completely, is recovered, or is undone.

    `output` returns the result for callers; `on_failure` applies to a refused step, `on_exhausted` when
    recoveries or the task's `complete_within` are exhausted. Callers can cancel a task until `cancel_within`
    seconds after it was processed. Operators find it by the texts of `find_by`. Raises `DefinitionError`.
    """

    def __init__(
        self,
        name: str,
        *,
        payload: type[P],
        steps: Sequence[BaseStep[Any]],
        on_failure: StopPolicy = "keep",
        on_exhausted: StopPolicy = "keep",
        cancel_within: float | None = None,
        complete_within: float | None = None,
        output: Callable[[P, Results], Json] | None = None,
        find_by: Callable[[P], Iterable[str | None]] | None = None,
        version: int = 1,
        resource: str | None = None,
        noun: str = "order",
    ) -> None:
        self.name, self.version, self.payload = name, version, payload
        self.output, self.find_by = output, find_by
        self.resource, self.noun = resource or name, noun
        self.file = checks.calling_file()
        try:
            self.steps = self._checked(steps)
            self.on_failure = checks.check_policy("on_failure", on_failure, _STOP_POLICIES)
            self.on_exhausted = checks.check_policy("on_exhausted", on_exhausted, _STOP_POLICIES)
            self.cancel_within, self.complete_within = cancel_within, complete_within
            checks.check_workflow(self, self.specs)
        except checks.OptionError as fault:
            raise self.error(str(fault)) from None
        self.digest = digest_of(self.specs)

    @property
    def specs(self) -> tuple[StepSpec, ...]:
        """Return the specs of the defined steps."""
        return tuple(step.spec for step in self.steps.values())

    def error(self, text: str) -> DefinitionError:
        """Return an error of this definition."""
        return DefinitionError(f'{self.file}: workflow "{self.name}": {text}')

    def limited(self, step_seconds: Mapping[str, float]) -> Workflow[P]:
        """Return the workflow with other `complete_within` of steps, in seconds by `{workflow}.{step}`."""
        steps = dict(self.steps)
        for name, step in self.steps.items():
            seconds = step_seconds.get(f"{self.name}.{name}", step.spec.complete_within)
            steps[name] = replace(step, spec=replace(step.spec, complete_within=seconds))
        limited = copy(self)
        limited.steps = MappingProxyType(steps)
        return limited

    def specs_of(self, payload: P, finders: frozenset[str] = frozenset()) -> tuple[StepSpec, ...]:
        """Return the snapshot of an order's steps, with one spec for each item of a for-each step.

        A need on a step without items is completed by that step's needs. `finders` are the gates of the
        Agents that can look up effects. Raises `UnfitOrderError`.
        """
        specs = tuple(spec for step in self.steps.values() for spec in self._specs_of(step, payload))
        count, agents = len(specs), len({spec.gate for spec in specs if spec.agent})
        if count > MOST_STEPS:
            raise UnfitOrderError(f"It has {count} steps, items included; the limit is {MOST_STEPS}.")
        queues = len({spec.gate for spec in specs if spec.type is StepType.QUEUE})
        if count + agents + queues > _MOST_ROWS:
            raise UnfitOrderError(f"{count} steps, {agents} Agents and {queues} queues exceed {_MOST_ROWS}.")
        needs = {name: step.spec.needs for name, step in self.steps.items()}
        all_empty = needs.keys() - {spec.step for spec in specs}
        if not all_empty and finders.isdisjoint(spec.gate for spec in specs):
            return specs
        for empty in all_empty:
            needs |= {name: own | needs[empty] for name, own in needs.items() if empty in own}
        return tuple(replace(spec, needs=needs[spec.step], can_find=spec.gate in finders) for spec in specs)

    def _specs_of(self, step: DefinedStep, payload: P) -> Iterator[StepSpec]:
        spec = step.spec
        if step.for_each is None:
            yield spec
            return
        try:
            digests = [item_digest(item) for item in items_of(step, payload.model_copy(deep=True))]
        except Exception as fault:
            raise UnfitOrderError(f"The items of its step '{spec.name}' cannot be read.") from fault
        for number, digest in enumerate(digests):
            yield replace(spec, name=f"{spec.name}.{number}", item=number, item_digest=digest)

    def accepts(self, payload: str) -> bool:
        """Return whether an order can be made of a payload (JSON)."""
        try:
            self.specs_of(self.payload.model_validate_json(payload))
        except Exception:  # noqa: BLE001 - a validator may raise anything
            return False
        return True

    def search_keys(self, payload: str, steps: int) -> tuple[str, ...]:
        """Return the keys of an order's search texts; an empty text and None have no key.

        `payload` is valid JSON, and `steps` the number of its steps with items. Raises `UnfitOrderError` if
        it has too many keys, or if `find_by` raises an error or returns no list of texts.
        """
        if self.find_by is None:
            return ()
        try:
            texts = self.find_by(self.payload.model_validate_json(payload))
            if isinstance(texts, str):
                raise TypeError("find_by returned a text: return a list of texts")  # noqa: TRY301 - as any defect
            found = (text for text in islice(texts, MOST_STEPS) if text is not None and text.strip())
            keys = tuple(dict.fromkeys(map(search_key, found)))
        except Exception as fault:
            raise UnfitOrderError("Its search texts cannot be read.") from fault
        if len(keys) > MOST_SEARCH_KEYS:
            raise UnfitOrderError(f"It has {len(keys)} search texts; the limit is {MOST_SEARCH_KEYS}.")
        if steps + len(keys) > MOST_STEPS:
            raise UnfitOrderError(
                f"It has {steps} steps, items included, and {len(keys)} search texts;"
                f" the limit is {MOST_STEPS} together."
            )
        return keys

    def new_order(
        self,
        task: str,
        run_id: str,
        payload: str,
        now: datetime,
        *,
        finders: frozenset[str] = frozenset(),
        submitter: str = "",
        **others: Any,
    ) -> Order:
        """Return the order of a new task; `payload` is JSON, `others` are further fields of the order.

        Raises `UnfitOrderError`, and the errors of the payload's model.
        """
        specs = self.specs_of(self.payload.model_validate_json(payload), finders)
        return Order(
            task=task,
            run_id=run_id,
            workflow=self.name,
            version=self.version,
            digest=self.digest,
            specs=specs,
            payload=payload,
            submitted_at=now,
            on_failure=self.on_failure,
            on_exhausted=self.on_exhausted,
            cancel_within=self.cancel_within,
            complete_within=self.complete_within,
            submitter=submitter,
            **others,
        )

    def _checked(self, steps: Sequence[BaseStep[Any]]) -> Mapping[str, DefinedStep]:
        if not isinstance(steps, list | tuple) or not all(isinstance(each, BaseStep) for each in steps):
            raise checks.OptionError("steps: it is no list of steps: use steps=[CARD, …]")
        if not 1 <= len(steps) <= MOST_STEPS:
            raise checks.OptionError(f"steps: {len(steps)} steps: use 1 to {MOST_STEPS}")
        defined: dict[str, DefinedStep] = {}
        for step in steps:
            if step.name in defined:
                raise checks.OptionError(f'steps: "{step.name}" is defined twice: rename one of them')
            try:
                defined[step.name] = checks.defined_step(step)
            except checks.OptionError as fault:
                raise checks.OptionError(f'step "{step.name}": {fault}') from None
        checks.check_needs(defined)
        return MappingProxyType(defined)


class WorkflowRegistry:
    """All deployed workflows by name and version.

    `step_seconds` overrides the `complete_within` of steps, by `{workflow}.{step}`. `run_seconds` is the
    length of a run; each call must be ten seconds shorter. Raises `DefinitionError`.
    """

    def __init__(
        self,
        workflows: Sequence[Workflow[Any]],
        *,
        step_seconds: Mapping[str, float] = MappingProxyType({}),
        run_seconds: float = 240,
    ) -> None:
        for one, other in combinations(workflows, 2):
            _check_distinct(one, other)
        checks.check_overrides(workflows, step_seconds)
        if step_seconds:
            workflows = [each.limited(step_seconds) for each in workflows]
        longest = run_seconds - SECONDS_BEFORE_CALL
        for workflow, spec in ((each, spec) for each in workflows for spec in each.specs):
            if spec.type is StepType.ACTIVITY and spec.complete_within > longest:
                raise workflow.error(
                    f'step "{spec.name}": complete_within: {spec.complete_within:g} s does not fit into a'
                    f" run: use a QueueStep, or at most {longest:g} s (RUN_SECONDS={run_seconds:g})"
                )
        self._versions = {(each.name, each.version): each for each in workflows}
        self._newest = {each.name: each for each in sorted(workflows, key=lambda each: each.version)}
        for workflow in workflows:
            self._check_children([workflow])

    def __iter__(self) -> Iterator[Workflow[Any]]:
        """Return an iterator over every version of every workflow."""
        return iter(self._versions.values())

    def find(self, name: str, version: int | None = None) -> Workflow[Any] | None:
        """Return a version of a workflow, by default the newest; None if it is not deployed here."""
        return self._newest.get(name) if version is None else self._versions.get((name, version))

    def versions_accepting(self, name: str, payload: str) -> list[Workflow[Any]]:
        """Return the versions of a workflow that accept an order with a payload (JSON), the newest first."""
        versions = [each for each in self if each.name == name]
        return [each for each in sorted(versions, key=lambda each: -each.version) if each.accepts(payload)]

    def accepting(self, name: str, payload: str) -> Workflow[Any] | None:
        """Return the newest version of a workflow that accepts a payload (JSON), or else the newest one.

        A parent's request may have been recorded before a stricter version was deployed.
        """
        return next(iter(self.versions_accepting(name, payload)), self.find(name))

    @property
    def queue_agents(self) -> frozenset[str]:
        """Return the names of the Agents behind queues."""
        return frozenset(spec.agent for each in self for spec in each.specs if spec.type is StepType.QUEUE)

    def _check_children(self, path: list[Workflow[Any]]) -> None:
        """Check that the workflows of workflow steps exist, without a cycle, to a bounded depth.

        Each version of a child may be started: an older one, if a newer one does not accept the request.
        """
        for spec in path[-1].specs:
            if spec.type is not StepType.WORKFLOW:
                continue
            children = [each for each in self if each.name == spec.workflow]
            chain = " → ".join([*(each.name for each in path), spec.workflow])
            if not children:
                names = ", ".join(sorted(self._newest))
                fault = f'"{spec.workflow}" is not registered: use one of {names}'
            elif spec.workflow in {each.name for each in path}:
                fault = f"a cycle ({chain}): remove the step"
            elif len(path) == _MOST_DEPTH:
                fault = f"more than {_MOST_DEPTH} levels ({chain}): remove one"
            else:
                for child in children:
                    self._check_children([*path, child])
                continue
            raise path[-1].error(f'step "{spec.name}": workflow: {fault}')


def _check_distinct(one: Workflow[Any], other: Workflow[Any]) -> None:
    if one.name == other.name and one.resource == other.resource:
        if one.version == other.version:
            raise other.error(f"version: {other.version} is registered twice: use another version")
    elif one.name == other.name:
        raise other.error(f'resource: its versions have "{one.resource}" and "{other.resource}": use one')
    elif one.resource == other.resource:
        raise other.error(f'resource: workflow "{one.name}" has "{one.resource}", too: use another one')
