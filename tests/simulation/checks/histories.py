"""I4, mutual exclusion, I5, monotone, and I9, failure count: all versions of a task's row, and its epochs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain, pairwise

from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.journal import Version
from tests.simulation.checks.rows import FINAL, RawEpoch, TaskRows
from tests.simulation.checks.violations import Invariant, Violation

#: What may end an epoch, by the state of the task.
_UNDER_WAY = {"recovered", "resumed", "exhausted", "refused", "cancelled", "released", "parked", "unparked"}
_ENDS = {
    "Pending": _UNDER_WAY,
    "Processing": _UNDER_WAY,
    "Processed": {"cancelled"},
    "Error": {"resubmitted", "undo requested", "found done", "found not done", "result given", "cancelled"},
    "Compensated": set[str](),
}
#: What an operator says of one step.
_ANSWERS = frozenset({"found done", "found not done", "result given"})
#: Ends that count nothing, and forget nothing.
_UNCOUNTED = frozenset({"released", "parked", "unparked", "resumed"})


def mutual_exclusion(evidence: Evidence) -> Iterator[Violation]:
    """Find two holders at once, and epochs that are missing or decrease."""
    for task, versions in evidence.journal.items():
        holders: dict[tuple[int, int], str] = {}
        for version in versions:
            if version.holder is None:
                continue
            expected = f"{task}.{version.epoch}" + (f".{version.run}" if version.run else "")
            held = holders.setdefault((version.epoch, version.run or 0), version.holder)
            if version.holder != expected or held != version.holder:
                what = f"epoch {version.epoch}, run {version.run} is held by {version.holder}"
                yield Violation(Invariant.MUTUAL_EXCLUSION, task, what)
        for before, after in pairwise(versions):
            step = (after.epoch - before.epoch, (after.run or 0) - (before.run or 0))
            if step[0] < 0 or (step[0] == 0 and step[1] < 0):
                what = f"went from epoch {before.epoch}, run {before.run} to {after.epoch}, {after.run}"
                yield Violation(Invariant.MUTUAL_EXCLUSION, task, what)


def monotone(evidence: Evidence) -> Iterator[Violation]:
    """Find changes that are not in the transition table."""
    for task, versions in evidence.journal.items():
        rows = evidence.tasks.get(task)
        wrong = (_wrong_steps(versions), _wrong_ends(rows), _left_in_error(versions, rows))
        for what in chain(*wrong, _recovered_in_time(versions, rows)):
            yield Violation(Invariant.MONOTONE, task, what)


def _wrong_steps(versions: Sequence[Version]) -> Iterator[str]:
    for before, after in pairwise(versions):
        if before.epoch == after.epoch and before.state in FINAL and after.state != before.state:
            yield f"left {before.state} for {after.state} in epoch {after.epoch}"
        if before.direction == "undo" and after.direction == "do":
            yield f"was turned from undo to do in epoch {after.epoch}"
        if before.state == "Compensated" and after.epoch != before.epoch:
            yield f"left Compensated for epoch {after.epoch}"


def _left_in_error(versions: Sequence[Version], rows: TaskRows | None) -> Iterator[str]:
    """Only an operator's answer leads from Error to Error, where another one is missing: nobody is told."""
    ends = {} if rows is None else {epoch.epoch: epoch.ended_by for epoch in rows.history}
    for before, after in pairwise(versions):
        is_left = before.state == after.state == "Error" and before.epoch != after.epoch
        if is_left and ends.get(before.epoch) not in _ANSWERS:
            yield f"was left in Error in epoch {after.epoch}, as '{ends.get(before.epoch)}'"


def _recovered_in_time(versions: Sequence[Version], rows: TaskRows | None) -> Iterator[str]:
    """Find tasks that were recovered before they were overdue, by the Supervisor's clock."""
    recovered = {e.epoch: e.ended_at for e in (rows.history if rows else ()) if e.ended_by == "recovered"}
    for before, after in pairwise(versions):
        ended_at, complete_by = recovered.get(before.epoch), before.complete_by
        if after.epoch == before.epoch or ended_at is None or complete_by is None:
            continue
        if ended_at < datetime.fromisoformat(complete_by):
            yield f"was recovered in epoch {before.epoch}, before its complete-by"


def _wrong_ends(rows: TaskRows | None) -> Iterator[str]:
    for epoch in () if rows is None else rows.history:
        if epoch.ended_by not in _ENDS.get(epoch.state, set()):
            yield f"epoch {epoch.epoch} ended as '{epoch.ended_by}' in state {epoch.state}"


def failure_count(evidence: Evidence) -> Iterator[Violation]:
    """Find counts that are not the number of recoveries, or too high."""
    for task, rows in evidence.tasks.items():
        counts = [version.failures for version in evidence.journal[task]]
        if rows.task is not None and rows.task.failure_count != _recoveries(rows.history):
            what = f"FailureCount is {rows.task.failure_count}, its epochs ended as {_ends(rows.history)}"
            yield Violation(Invariant.FAILURE_COUNT, task, what)
        if max(counts) > evidence.most_recoveries:
            yield Violation(Invariant.FAILURE_COUNT, task, f"FailureCount was {max(counts)}")


def _recoveries(history: Sequence[RawEpoch]) -> int:
    count = 0
    for epoch in history:
        if epoch.ended_by not in _UNCOUNTED:
            count = count + 1 if epoch.ended_by == "recovered" else 0
    return count


def _ends(history: Sequence[RawEpoch]) -> str:
    return ", ".join(epoch.ended_by for epoch in history)
