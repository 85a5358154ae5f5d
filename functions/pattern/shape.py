"""What a task is made of, as it is recorded with its order: whatever becomes of its definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from functions.pattern.identity import StepName
from functions.pattern.states import Remedy, Way

#: A shape is kept in one property of the order's row, which holds 64 KiB (Table Storage) at most.
MAX_SHAPE_BYTES = 48 * 1024

#: Shapes that were read and are kept: one for each version of a workflow that is under way.
_MOST_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """One step: who does it, which way, after which others, and within how many seconds."""

    name: StepName
    agent: str
    via: Way
    needs: frozenset[StepName]
    undo: bool
    idempotent: bool
    complete_within: float


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
            "steps": [_written_step(step, numbers) for step in self.steps],
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


def _written_step(step: StepShape, numbers: Mapping[StepName, int]) -> dict[str, Any]:
    return {
        "name": step.name,
        "agent": step.agent,
        "via": step.via,
        "needs": sorted(numbers[name] for name in step.needs),
        "undo": step.undo,
        "idempotent": step.idempotent,
        "complete_within": step.complete_within,
    }


def _read_step(written: Mapping[str, Any], names: list[StepName]) -> StepShape:
    return StepShape(
        name=StepName(written["name"]),
        agent=written["agent"],
        via=Way(written["via"]),
        needs=frozenset(names[number] for number in written["needs"]),
        undo=written["undo"],
        idempotent=written["idempotent"],
        complete_within=written["complete_within"],
    )
