"""I6, order: what a step needs comes before it, and is undone after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tests.chaos.evidence.dispatches import GRAIN
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.rows import RawStep, TaskRows
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.remotes.ledger import CallDirection, Effect, ServiceCall
from tests.simulation.checks.definitions import StepsByName

_SETTLED = frozenset({"Completed", "Skipped"})


def order_of_needs(evidence: Evidence) -> Iterator[Violation]:
    """Find steps that were begun before what they need had ended, or whose need was undone before them.

    A step of the product's orders needs another in each version, which their rows tell.
    """
    for task, rows in evidence.tasks.items():
        steps = evidence.definitions.steps_of(rows)
        if steps is None:  # nothing names its version
            continue
        calls = [call for call in evidence.calls_of(task) if steps.knows(call.step)]
        for what in (
            *_begun_too_early(rows, steps),
            *_called_too_early(calls, steps),
            *_undone_too_early(calls, steps),
        ):
            yield Violation(Invariant.ORDER, task, what)


def _begun_too_early(rows: TaskRows, steps: StepsByName) -> Iterator[str]:
    looks = [epoch.steps for epoch in rows.history if epoch.direction == "do"]
    if rows.task is not None and rows.task.direction == "do":
        looks.append(rows.steps)
    for look in looks:
        for step in look:
            if step.started_at is None:
                continue
            for need in _needed(step, look, steps):
                may_lack = need.state == "Failed" and steps.may_fail(need.name)
                if need.state not in _SETTLED and not may_lack:
                    yield f"{step.name} was begun, and needs {need.name}, which is {need.state}"


def _called_too_early(calls: Sequence[ServiceCall], steps: StepsByName) -> Iterator[str]:
    """Compare true times: a step was called before what it needs was carried out.

    What was skipped, or refused, was never carried out; what an operator said was done, was before, or never.
    What may fail is gone on without when nobody knows its outcome: it can be carried out later.
    """
    called = {call.step: call.sending.at for call in reversed(calls) if not call.is_undo}
    done = {call.step: _time(call) for call in sorted(calls, key=_time, reverse=True) if _is_done(call)}
    for step, sent in called.items():
        for need, carried_out in done.items():
            is_needed = need.partition(".")[0] in steps.step(step).needs and not steps.may_fail(need)
            if is_needed and carried_out > sent + GRAIN:
                yield f"{step} was called before {need}, which it needs, was carried out"


def _is_done(call: ServiceCall) -> bool:
    return call.direction is CallDirection.DO and call.effect is Effect.PERFORMED


def _needed(step: RawStep, look: Sequence[RawStep], steps: StepsByName) -> list[RawStep]:
    needs = steps.step(step.name).needs if steps.knows(step.name) else ()
    return [each for each in look if each.name.partition(".")[0] in needs]


def _undone_too_early(calls: Sequence[ServiceCall], steps: StepsByName) -> Iterator[str]:
    asked = {call.step: call.sending.at for call in reversed(calls) if call.is_undo}
    for step, sent in asked.items():
        needing = steps.needed_by(step)
        for call in calls:
            is_later = call.step.partition(".")[0] in needing
            if is_later and _is_undone(call) and _time(call) > sent:
                yield f"the undo of {step} was asked for before {call.step}, which needs it, was undone"


def _is_undone(call: ServiceCall) -> bool:
    return call.direction is CallDirection.UNDO and call.effect is Effect.PERFORMED


def _time(call: ServiceCall) -> datetime:
    return call.carried_out or call.arrived
