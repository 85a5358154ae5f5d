"""I7, termination, and I8, silence of the late."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from tests.chaos.evidence.dispatches import Dispatch
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.rows import FINAL, RawStep, TaskRows
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.remotes.ledger import ServiceCall

#: Seconds that a look may take, which begins before the bound: what it sees may have come to rest in time.
_LAST_LOOK = 60.0
#: Of what is `Unrecorded` it was known in time that it was done, but not with which result.
_DONE = frozenset({"Completed", "Unrecorded", "Undone"})


def termination(evidence: Evidence) -> Iterator[Violation]:
    """Find what was not finished in time."""
    for order in evidence.plan.scenarios:
        rows = evidence.tasks.get(order)
        if order not in evidence.accepted:
            yield Violation(Invariant.TERMINATION, order, "was never accepted")
        elif rows is None or rows.task is None:
            yield Violation(
                Invariant.TERMINATION, order, "has no task: its message was lost, or dead-lettered"
            )
        elif rows.task.state not in FINAL:
            what = f"is still {rows.task.state} in epoch {rows.task.epoch}: {rows.task.last_error}"
            yield Violation(Invariant.TERMINATION, order, what)
    settling, bound = evidence.settling, evidence.limits.termination(drawn=evidence.plan.has_drawn)
    if settling.seconds > bound + _LAST_LOOK:
        what = f"came to rest after {settling.seconds:.0f} s; the bound is {bound:.0f} s"
        yield Violation(Invariant.TERMINATION, None, what)
    for what in evidence.settling.leftovers:
        yield Violation(Invariant.TERMINATION, None, f"after {evidence.settling.seconds:.0f} s: {what}")


def no_late_outcome(evidence: Evidence) -> Iterator[Violation]:
    """Find calls outside the time of every dispatch, and outcomes that were recorded too late."""
    for order, rows in evidence.tasks.items():
        dispatches = evidence.dispatches_of(order)
        for call in evidence.calls_of(order):
            for what in _out_of_time(call, dispatches, evidence):
                sent = f"'{call.step}/{call.direction}', sent {call.sending.at:%X.%f}, {what}"
                yield Violation(Invariant.SILENCE_OF_THE_LATE, order, sent)
        answered = answered_by_operators(rows)
        for step in all_steps(rows):
            definition = evidence.steps.step(step.name)
            is_judged = definition.idempotent and not definition.via.waits
            if (
                is_judged
                and _is_late(step)
                and (step.state == "Unrecorded" or start_of(step) not in answered)
            ):
                what = f"step {step.name} was recorded {step.state} after its complete-by"
                yield Violation(Invariant.SILENCE_OF_THE_LATE, order, what)


def _out_of_time(call: ServiceCall, dispatches: Collection[Dispatch], evidence: Evidence) -> Iterator[str]:
    """Judge a call by its sending: whatever is on its way may be held up.

    A host that is frozen may have read its clock before, and call after: no program can prevent that.
    """
    late = (call.sending.turn - call.sending.ends_at).total_seconds()
    if late > 0:
        yield f"was {late:.3f} s late by the clock of its host"
    if not any(_belongs(call, dispatch, evidence) for dispatch in dispatches):
        yield f"had until {call.sending.complete_by:%X.%f}, by no dispatch"


def _belongs(call: ServiceCall, dispatch: Dispatch, evidence: Evidence) -> bool:
    if (call.step, call.direction) != (dispatch.step, dispatch.direction):
        return False
    begin = evidence.told.earliest(
        dispatch.complete_by - evidence.limits.within_of_a_dispatch, to=dispatch.complete_by
    )
    return begin <= call.sending.at and call.sending.complete_by <= dispatch.complete_by


def all_steps(rows: TaskRows) -> Iterator[RawStep]:
    """Yield the steps as they were when each epoch ended, and as they are now."""
    for epoch in rows.history:
        yield from epoch.steps
    yield from rows.steps


def answered_by_operators(rows: TaskRows) -> set[tuple[str, datetime | None]]:
    """Give the starts of steps whose results operators have given, which may be at any time."""
    asked = (epoch for epoch in rows.history if epoch.ended_by == "found done")
    return {start_of(step) for epoch in asked for step in epoch.steps if step.state == "Unrecorded"}


def start_of(step: RawStep) -> tuple[str, datetime | None]:
    """Tell one start of a step from others."""
    return step.name, step.started_at


def _is_late(step: RawStep) -> bool:
    if step.state not in _DONE or step.finished_at is None or step.complete_by is None:
        return False
    return step.finished_at > step.complete_by
