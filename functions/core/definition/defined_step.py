"""A step of a workflow as it is deployed, its items, and its snapshot."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pydantic import BaseModel

from functions.core.definition.step_definition import Retry
from functions.core.record import StepSpec

#: Steps of one task, items included. One transaction holds 100 rows, and a change adds up to eight others.
MOST_STEPS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedStep:
    """A checked step: its snapshot, and the functions and models that the deployed code adds.

    `undo` makes the undo's request; without it, an undo sends the request of the do. `model` is the model of
    the result, or of the event.
    """

    spec: StepSpec
    request: Callable[..., Any] | None = None
    undo: Callable[..., Any] | None = None
    when: Callable[..., Any] | None = None
    until: Callable[..., Any] | None = None
    for_each: Callable[[Any], Any] | None = None
    model: type[BaseModel] | None = None
    retry: Retry | None = None


def items_of(step: DefinedStep, payload: BaseModel) -> Sequence[Any]:
    """Return the items of a for-each step, at most one more than fit. Raises the errors of the function."""
    if step.for_each is None:
        return ()
    items = step.for_each(payload)
    if not isinstance(items, list | tuple):
        raise TypeError(f"for_each returned {type(items).__name__}: return a list or a tuple")
    return items[: MOST_STEPS + 1]


def spec_facts(spec: StepSpec) -> dict[str, Any]:
    """Return the fields of a spec that differ from their defaults."""
    values = ((field.name, getattr(spec, field.name), field.default) for field in fields(spec))
    facts = {name: value for name, value, default in values if value != default}
    return {**facts, "needs": sorted(spec.needs)}


def digest_of(specs: Sequence[StepSpec]) -> str:
    """Return a digest of the steps without their time limits, which settings can change."""
    facts = [{**spec_facts(spec), "complete_within": 0} for spec in specs]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
