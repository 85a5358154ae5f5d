"""I4, mutual exclusion, I5, monotone, and I9, failure count: the rows of a task over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.rows import FINAL, RawEpoch, RawTask, TaskRows
from tests.chaos.invariants.cancelling import CANCELLED
from tests.chaos.invariants.timeliness import all_steps, answered_by_operators, start_of
from tests.chaos.invariants.violations import Invariant, Violation

#: The order of states within one epoch.
_PROGRESS = {"Pending": 0, "Processing": 1} | dict.fromkeys(FINAL, 2)
_RECOVERED = "recovered"
#: Late with many others, or waiting for its version: neither counts, nor forgets.
_UNCOUNTED = frozenset({"resumed", "released", "parked", "unparked"})
#: An epoch that no Scheduler has begun yet, too: a wait or an answer of the one before may end meanwhile.
_UNDER_WAY = {_RECOVERED, *_UNCOUNTED, "exhausted", "refused", CANCELLED}
#: What may end an epoch, by the state of the task.
_ENDS = {
    "Pending": _UNDER_WAY,
    "Processing": _UNDER_WAY,
    "Processed": {CANCELLED},
    "Error": {"resubmitted", "undo requested", "found done"},
}


def mutual_exclusion(evidence: Evidence) -> Iterator[Violation]:
    """Find two writers of one epoch, and epochs that are missing or decreased."""
    for order, rows in evidence.tasks.items():
        seen = evidence.observations.tasks.get(order, ())
        late = _outcomes_of_ended_epochs(rows, evidence)
        for what in (*_wrong_epochs(rows), *_wrong_holders(order, rows, seen), *_decreases(seen), *late):
            yield Violation(Invariant.MUTUAL_EXCLUSION, order, what)
    for order in evidence.both_won:
        what = "two operators were both told that they opened the same epoch"
        yield Violation(Invariant.MUTUAL_EXCLUSION, order, what)


def _wrong_epochs(rows: TaskRows) -> Iterator[str]:
    epochs = [epoch.epoch for epoch in rows.history] + ([rows.task.epoch] if rows.task else [])
    if epochs != list(range(1, len(epochs) + 1)):
        yield f"its epochs are {epochs}"


def _wrong_holders(order: str, rows: TaskRows, seen: Sequence[RawTask]) -> Iterator[str]:
    now = [*seen, *([rows.task] if rows.task else [])]
    for epoch in rows.history:
        own = f"{order}.{epoch.epoch}"
        if epoch.locked_by not in {None, own} and not str(epoch.locked_by).startswith(f"{own}."):
            yield f"epoch {epoch.epoch} was held by {epoch.locked_by}"
    for row in now:
        own = f"{order}.{row.epoch}" + (f".{row.run}" if row.run else "")
        if row.locked_by not in {None, own}:
            yield f"epoch {row.epoch}, run {row.run} was held by {row.locked_by}"


def _outcomes_of_ended_epochs(rows: TaskRows, evidence: Evidence) -> Iterator[str]:
    """Find outcomes that count though the epoch of their step had ended before.

    Not of what must not be repeated: that it was done is kept whenever it becomes known. And operators give
    results in an epoch of their own.
    """
    ended = {epoch.epoch: evidence.told.latest(epoch.ended_at) for epoch in rows.history}
    answered = answered_by_operators(rows)
    for step in all_steps(rows):
        if step.epoch not in ended or step.finished_at is None or step.state not in {"Completed", "Undone"}:
            continue
        definition = evidence.steps.step(step.name)
        is_kept = not definition.idempotent or definition.via.waits
        is_late = evidence.told.earliest(step.finished_at) > ended[step.epoch]
        if is_late and not is_kept and start_of(step) not in answered:
            yield f"{step.name} is {step.state} by an outcome of epoch {step.epoch}, which had ended"


def _decreases(seen: Sequence[RawTask]) -> Iterator[str]:
    for before, after in pairwise(seen):
        if after.epoch < before.epoch:
            yield f"was seen in epoch {before.epoch}, then in {after.epoch}"


def monotone(evidence: Evidence) -> Iterator[Violation]:
    """Find changes that are not in the transition table."""
    for order, rows in evidence.tasks.items():
        for what in (*_wrong_ends(rows), *_wrong_steps(evidence.observations.tasks.get(order, ()))):
            yield Violation(Invariant.MONOTONE, order, what)


def _wrong_ends(rows: TaskRows) -> Iterator[str]:
    for epoch in rows.history:
        if epoch.ended_by not in _ENDS.get(epoch.state, set()):
            yield f"epoch {epoch.epoch} ended as '{epoch.ended_by}' in state {epoch.state}"
    directions = [epoch.direction for epoch in rows.history] + ([rows.task.direction] if rows.task else [])
    if directions != sorted(directions):  # "do" comes before "undo"
        yield f"its directions were {directions}"


def _wrong_steps(seen: Sequence[RawTask]) -> Iterator[str]:
    for before, after in pairwise(seen):
        same_epoch = before.epoch == after.epoch
        if (
            same_epoch
            and _PROGRESS[after.state] < _PROGRESS[before.state]
            and not _is_handed_back(before, after)
        ):
            yield f"went from {before.state} back to {after.state} in epoch {after.epoch}"
        if same_epoch and before.state in FINAL and after.updated_at != before.updated_at:
            yield f"was changed after its end in epoch {after.epoch}"
        if not same_epoch and not _may_be_left(before.state, after.direction):
            yield f"left {before.state} for epoch {after.epoch}"


def _is_handed_back(before: RawTask, after: RawTask) -> bool:
    """Tell whether a task that waits, or whose version is not here, was given back by its holder."""
    is_given = after.waits or after.parked_for is not None or (after.run or 0) > (before.run or 0)
    return is_given and before.state not in FINAL


def _may_be_left(state: str, direction: str) -> bool:
    """Tell whether an epoch may follow: what was processed can only be undone, what was undone is."""
    return state != "Compensated" and (state != "Processed" or direction == "undo")


def failure_count(evidence: Evidence) -> Iterator[Violation]:
    """Find counts that are not the number of recoveries, or too high."""
    most = evidence.limits.most_recoveries
    for order, rows in evidence.tasks.items():
        if rows.task is None:
            continue
        recoveries = _recoveries(rows.history)
        if rows.task.failure_count != recoveries:
            what = f"FailureCount is {rows.task.failure_count}, its history has {recoveries} recoveries"
            yield Violation(Invariant.FAILURE_COUNT, order, what)
        counts = [row.failure_count for row in (rows.task, *evidence.observations.tasks.get(order, ()))]
        if max(counts) > most:
            yield Violation(Invariant.FAILURE_COUNT, order, f"FailureCount was {max(counts)}, above {most}")


def _recoveries(history: Sequence[RawEpoch]) -> int:
    """Count the recoveries since the task was submitted, resubmitted, or its direction became undo."""
    count = 0
    for epoch in history:
        if epoch.ended_by not in _UNCOUNTED:
            count = count + 1 if epoch.ended_by == _RECOVERED else 0
    return count
