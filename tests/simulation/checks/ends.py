"""I1, no loss, I7, termination, and I15, cancelled: how everything ended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.rows import RawEpoch, body_of, names
from tests.simulation.checks.violations import Invariant, Violation


def no_loss(evidence: Evidence) -> Iterator[Violation]:
    """Find what was accepted, and is nowhere."""
    for task in evidence.accepted:
        if task not in evidence.tasks and not names(evidence.rejected, task):
            yield Violation(Invariant.NO_LOSS, task, "was accepted, and there is no task")
    for task, answer in evidence.refused.items():
        yield Violation(Invariant.NO_LOSS, task, f"refused, though nothing is wrong with it: {answer}")


def no_message_dies_unseen(evidence: Evidence) -> Iterator[Violation]:
    """Find messages that died, and are kept nowhere: the log tells of them, the webhook at best."""
    kept = {body_of(row) for row in evidence.rejected}
    for queue, body in evidence.buried:
        if body not in kept:
            what = f"a message died on {queue}, and is kept nowhere: {body!r:.99}"
            yield Violation(Invariant.NO_LOSS, None, what)


def termination(evidence: Evidence) -> Iterator[Violation]:
    """Find what was not at rest in time, and what was raised where nobody could catch it."""
    for what in evidence.leftovers:
        yield Violation(Invariant.TERMINATION, what.partition("|")[0], what)
    for what in evidence.unhandled:
        yield Violation(Invariant.TERMINATION, None, what)


def cancelled(evidence: Evidence) -> Iterator[Violation]:
    """Find cancels that were taken and came to nothing, or that nobody asked for."""
    for task, rows in evidence.tasks.items():
        is_undone = rows.task is not None and (
            rows.task.state == "Compensated" or (rows.task.direction, rows.task.state) == ("undo", "Error")
        )
        if task in evidence.cancelled and not is_undone:
            state = None if rows.task is None else rows.task.state
            yield Violation(Invariant.CANCELLED, task, f"its cancel was answered 202, but it is {state}")
        for before, epoch in pairwise(rows.history):
            if epoch.ended_by == "cancelled" and epoch.direction == "undo" and not _is_held_up(before, epoch):
                what = f"cancelled in epoch {epoch.epoch}, though it was on its way back"
                yield Violation(Invariant.CANCELLED, task, what)


def _is_held_up(before: RawEpoch, epoch: RawEpoch) -> bool:
    """Tell whether an undo went on only by a cancel: it had failed for good, or an operator had parked it."""
    return epoch.state == "Error" or before.ended_by == "parked"


def as_seen(evidence: Evidence) -> Iterator[Violation]:
    """Give what was seen while it happened."""
    yield from evidence.seen
