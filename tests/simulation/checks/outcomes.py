"""I4, mutual exclusion, I5, monotone, and I8, silence of the late: the starts and outcomes on record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.journal import StepChange
from tests.simulation.checks.rows import FINAL
from tests.simulation.checks.violations import Invariant, Violation

_UNDER_WAY = frozenset({"Running", "Undoing"})
_DONE = frozenset({"Completed", "Undone"})


def no_late_outcome(evidence: Evidence) -> Iterator[Violation]:
    """Find what can be repeated, and was recorded as done after its complete-by, by the writer's clock."""
    for task, change in _of_repeatable_steps(evidence):
        late = change.after.get("FinishedAt", "") > change.after.get("CompleteBy", "9")
        if late and _has_ended(change) and not change.opens_epoch:
            what = f"{change.after['Name']} was recorded {change.after['State']} after its complete-by"
            yield Violation(Invariant.SILENCE_OF_THE_LATE, task, what)


def what_ended_stays(evidence: Evidence) -> Iterator[Violation]:
    """Find steps that may be repeated and were changed though their task had ended, in its last epoch."""
    for task, change in _of_repeatable_steps(evidence):
        has_ended = change.task_before["ProcessState"] in FINAL and not change.opens_epoch
        if has_ended and change.before.get("State") != change.after.get("State"):
            what = f"{change.after['Name']} became {change.after['State']} after its task's end"
            yield Violation(Invariant.MONOTONE, task, what)


def no_outcome_of_another(evidence: Evidence) -> Iterator[Violation]:
    """Find starts and outcomes of an epoch that had ended; what must not be repeated is kept all the same."""
    for task, changes in evidence.step_changes.items():
        for change in changes:
            begun = change.after.get("State") in _UNDER_WAY and _start(change.before) != _start(change.after)
            if begun and change.after["Epoch"] < change.task_before["Epoch"]:
                what = (
                    f"{change.after['Name']} was started for epoch {change.after['Epoch']}, which had ended"
                )
                yield Violation(Invariant.MUTUAL_EXCLUSION, task, what)
    for task, change in _of_repeatable_steps(evidence):
        is_old = change.before.get("Epoch", 0) == change.after.get("Epoch") < change.task_before["Epoch"]
        if is_old and _has_ended(change) and not change.opens_epoch:
            what = f"an outcome of {change.after['Name']} counted, of epoch {change.after['Epoch']}"
            yield Violation(Invariant.MUTUAL_EXCLUSION, task, what)


def _of_repeatable_steps(evidence: Evidence) -> Iterator[tuple[str, StepChange]]:
    for task, changes in evidence.step_changes.items():
        for change in changes:
            definition = evidence.steps.step(change.after["Name"])
            if definition.idempotent and not definition.via.waits:
                yield task, change


def _has_ended(change: StepChange) -> bool:
    return change.after.get("State") in _DONE and change.before.get("State") in _UNDER_WAY


def _start(step: Mapping[str, Any]) -> tuple[object, object]:
    return step.get("StartId"), step.get("Epoch")
