"""I2, one effect, I3, net effect, and I6, order: the ledger of the remote services."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from tests.chaos.evidence.dispatches import GRAIN
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.rows import RawStep, TaskRows
from tests.chaos.invariants.timeliness import all_steps
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.remotes.ledger import CallDirection, Effect, ServiceCall
from tests.simulation.checks.definitions import StepsByName


def one_effect(evidence: Evidence) -> Iterator[Violation]:
    """Find what was done or undone more than once, and keys that do not belong to the effect."""
    for order in {
        **evidence.plan.scenarios,
        **evidence.tasks,
        **{call.order: None for call in evidence.calls},
    }:
        rows, calls = evidence.tasks.get(order, TaskRows()), evidence.calls_of(order)
        for direction in CallDirection:
            for step in {call.step for call in calls}:
                times = len(_performed(calls, step, direction))
                if times > 1:
                    what = f"'{step}/{direction}' was performed {times} times"
                    yield Violation(Invariant.ONE_EFFECT, order, what)
        births = {call.key.partition("/")[0] for call in calls}
        for key in {call.key for call in calls if not _belongs(call, order, rows)}:
            yield Violation(Invariant.ONE_EFFECT, order, f"called under the key '{key}'")
        if len(births) > 1:
            yield Violation(Invariant.ONE_EFFECT, order, f"called under the births {sorted(births)}")


def _belongs(call: ServiceCall, order: str, rows: TaskRows) -> bool:
    key = rf"{re.escape(order)}\.[0-9a-f]{{8}}/{re.escape(call.step)}/{call.direction}"
    return call.step in {step.name for step in rows.steps} and re.fullmatch(key, call.key) is not None


def net_effect(evidence: Evidence) -> Iterator[Violation]:
    """Find final states that the ledger contradicts."""
    for order, rows in evidence.tasks.items():
        check = {"Processed": _processed, "Compensated": _compensated}.get(
            rows.task.state if rows.task else ""
        )
        if check is None:
            continue
        calls = evidence.calls_of(order)
        for step in rows.steps:
            own = [call for call in calls if call.step == step.name]
            for what in check(step, own, evidence.steps):
                yield Violation(Invariant.NET_EFFECT, order, f"{step.name}: {what}")


def _processed(step: RawStep, calls: Sequence[ServiceCall], steps: StepsByName) -> Iterator[str]:
    done = _performed(calls, step.name, CallDirection.DO)
    may_lack = step.state == "Skipped" or (step.state == "Failed" and steps.may_fail(step.name))
    if step.state != "Completed" and not may_lack:
        yield f"Processed, but {step.state}"
    if step.state == "Completed" and not done and not steps.step(step.name).via.waits:
        yield "Processed, but never done"
    if step.state == "Skipped" and done:
        yield "Processed without it, though it was done"
    if _performed(calls, step.name, CallDirection.UNDO):
        yield "Processed, but undone"


def _compensated(step: RawStep, calls: Sequence[ServiceCall], steps: StepsByName) -> Iterator[str]:
    if not steps.step(step.name).undo:
        return
    done = _performed(calls, step.name, CallDirection.DO)
    undone = _performed(calls, step.name, CallDirection.UNDO)
    if calls and not undone:
        yield "Compensated, but the service knows no undo"
    if step.started_at is not None and step.state != "Undone":
        yield f"Compensated, but {step.state}"
    if done and undone and _time(done[-1]) > _time(undone[0]):
        yield "Compensated, but done after its undo"


def order_of_calls(evidence: Evidence) -> Iterator[Violation]:
    """Find calls that came before the record that they belong to."""
    for order, rows in evidence.tasks.items():
        for call in evidence.calls_of(order):
            is_undo = call.direction is CallDirection.UNDO
            told = _undo_decided_at(rows) if is_undo else _dispatched_at(evidence, order, call.step)
            allowed_from = None if told is None else evidence.told.earliest(told)
            if allowed_from is None or call.sending.at < allowed_from - GRAIN:
                sent = f"{call.sending.at:%X.%f}"
                what = f"'{call.step}/{call.direction}' was sent {sent}, recorded {told or 'never'}"
                yield Violation(Invariant.ORDER, order, what)


def _performed(calls: Sequence[ServiceCall], step: str, direction: CallDirection) -> list[ServiceCall]:
    own = (call for call in calls if call.step == step and call.direction is direction)
    return sorted((call for call in own if call.effect is Effect.PERFORMED), key=_time)


def _time(call: ServiceCall) -> datetime:
    return call.carried_out or call.arrived


def _undo_decided_at(rows: TaskRows) -> datetime | None:
    """When the last epoch of direction `do` ended; None when the task was never undone."""
    if rows.task is None or rows.task.direction != "undo":
        return None
    return next((epoch.ended_at for epoch in reversed(rows.history) if epoch.direction == "do"), None)


def _dispatched_at(evidence: Evidence, order: str, name: str) -> datetime | None:
    """When a step was first recorded as running, as its host told the time; None when it never was.

    The first may tell a later time than those that follow, as its host's clock was ahead. Of a request that
    is delivered twice, one can be carried out while the other waits for too long, so that the step is
    dispatched again: its row has the time of that, and the journal that of the first.
    """
    found = [step.started_at for step in all_steps(evidence.tasks[order]) if step.name == name]
    found += [
        each.started_at
        for each in evidence.dispatches_of(order)
        if (each.step, each.direction) == (name, "do")
    ]
    return min((each for each in found if each is not None), key=evidence.told.earliest, default=None)
