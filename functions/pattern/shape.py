"""What a task is made of, as it is recorded with its order: whatever becomes of its definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from functions.pattern.identity import StepName, step_of
from functions.pattern.retry import Retry
from functions.pattern.states import Expiry, Remedy, Way

#: A shape is kept in one property of the order's row, which holds 64 KiB (Table Storage) at most.
MAX_SHAPE_BYTES = 48 * 1024

#: Shapes that were read and are kept: one for each version of a workflow that is under way.
_MOST_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """One step: who does it, which way, after which others, and within how many seconds.

    One with `at_once` is for each item of the order, at most so many of them at the same time.
    Of an event, the `role` is that of those who may tell it, and `default` the body (JSON) when it did not
    come in time. One that is a task is of that `workflow`. What is None is what the task, or the settings,
    say. A field with a default is written only when it differs.
    """

    name: StepName
    agent: str
    via: Way
    needs: frozenset[StepName]
    undo: bool
    idempotent: bool
    complete_within: float
    on_failure: Remedy | None = None
    retry: Retry | None = None
    role: str | None = None
    on_expiry: Expiry = Expiry.REFUSE
    default: str | None = field(default=None, repr=False)
    at_once: int | None = None
    workflow: str | None = None

    @property
    def step(self) -> StepName:
        """Name the step as it is defined; that of an item is its for-each step."""
        return step_of(self.name)

    @property
    def facts(self) -> dict[str, Any]:
        """Give what is written of it, with what it needs by name."""
        facts: dict[str, Any] = {
            "name": self.name,
            "agent": self.agent,
            "via": self.via,
            "needs": sorted(self.needs),
            "undo": self.undo,
            "idempotent": self.idempotent,
            "complete_within": self.complete_within,
        }
        if self.retry is not None:
            facts["retry"] = asdict(self.retry) | {"on": sorted(self.retry.on)}
        if self.on_expiry is not Expiry.REFUSE:
            facts["on_expiry"] = self.on_expiry
        for name in ("on_failure", "role", "default", "at_once", "workflow"):
            if getattr(self, name) is not None:
                facts[name] = getattr(self, name)
        return facts


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The steps in the definition's order, and what happens when they can't be carried out."""

    steps: tuple[StepShape, ...]
    on_failure: Remedy
    on_exhausted: Remedy
    #: Seconds for which a caller can cancel what was processed.
    cancel_within: float | None = None

    @cached_property
    def written(self) -> bytes:
        """Write it as compact JSON; what a step needs is written by number, from 0."""
        numbers = {step.name: number for number, step in enumerate(self.steps)}
        shape: dict[str, Any] = {
            "on_failure": self.on_failure,
            "on_exhausted": self.on_exhausted,
            "steps": [
                step.facts | {"needs": sorted(numbers[name] for name in step.needs)} for step in self.steps
            ],
        }
        if self.cancel_within is not None:
            shape["cancel_within"] = self.cancel_within
        return json.dumps(shape, separators=(",", ":")).encode()

    @cached_property
    def without_limits(self) -> Shape:
        """Leave out the times, which settings can change: none of them makes a definition's function fail."""
        steps = tuple(replace(step, complete_within=0) for step in self.steps)
        return replace(self, steps=steps, cancel_within=None)


@lru_cache(maxsize=_MOST_KEPT)
def read_shape(written: bytes) -> Shape:
    """Read what `Shape.written` gave; tasks of one version share it. Raises `ValueError` for damage."""
    try:
        shape = json.loads(written)
        names = [StepName(step["name"]) for step in shape["steps"]]
        return Shape(
            steps=tuple(_read_step(step, names) for step in shape["steps"]),
            on_failure=Remedy(shape["on_failure"]),
            on_exhausted=Remedy(shape["on_exhausted"]),
            cancel_within=shape.get("cancel_within"),
        )
    except (KeyError, IndexError, TypeError) as fault:
        raise ValueError(f"a task's shape can't be read ({fault!r})") from None


def _read_step(written: Mapping[str, Any], names: list[StepName]) -> StepShape:
    return StepShape(
        name=StepName(written["name"]),
        agent=written["agent"],
        via=Way(written["via"]),
        needs=frozenset(names[number] for number in written["needs"]),
        undo=written["undo"],
        idempotent=written["idempotent"],
        complete_within=written["complete_within"],
        on_failure=Remedy(written["on_failure"]) if "on_failure" in written else None,
        retry=Retry(**written["retry"]) if "retry" in written else None,
        role=written.get("role"),
        on_expiry=Expiry(written.get("on_expiry", Expiry.REFUSE)),
        default=written.get("default"),
        at_once=written.get("at_once"),
        workflow=written.get("workflow"),
    )
