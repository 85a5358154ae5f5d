"""I2, one effect, and I3, net effect: the ledger of the services against the final states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from functions.pattern.states import Way
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.rows import TaskRows
from tests.simulation.checks.violations import Invariant, Violation


def one_effect(evidence: Evidence) -> Iterator[Violation]:
    """Find what was done, or undone, more than once; what knows no keys, or under other keys, too.

    No id of a run's tasks is taken a second time, so each has one birth: that of its order's row.
    """
    for kind, effects in (("done", evidence.ledger.done), ("undone", evidence.ledger.undone)):
        times = Counter[tuple[str, str]]()
        for effect, count in effects.items():
            times[effect.partition(".")[0], effect.partition("/")[2]] += count
        for (task, step), count in times.items():
            if count > 1:
                yield Violation(Invariant.ONE_EFFECT, task, f"{step} was {kind} {count} times")
    for call in evidence.ledger.calls:
        birth = evidence.births.get(call.task)
        if birth is not None and not call.key.startswith(f"{call.task}.{birth}/"):
            what = f"{call.key} was called, and its task's birth is {birth}"
            yield Violation(Invariant.ONE_EFFECT, call.task, what)


def nothing_is_only_said(evidence: Evidence) -> Iterator[Violation]:
    """Find steps that were recorded as done, or undone, before their service, or task, had done it."""
    for task, changes in evidence.step_changes.items():
        for change in changes:
            state, name = str(change.after.get("State")), change.after["Name"]
            is_known = {"Completed": change.was_done, "Undone": change.was_undone}.get(state, True)
            if state != change.before.get("State") and not is_known and _has_effect(evidence, task, name):
                yield Violation(Invariant.NET_EFFECT, task, f"{name} was recorded {state}, and was not")


def _has_effect(evidence: Evidence, task: str, step: str) -> bool:
    """Tell whether a step has an effect: what only waits or reads has none, nor has an operator's word."""
    definition = evidence.steps.step(step)
    only_waits = definition.via.waits and definition.via is not Way.WORKFLOW
    is_read = only_waits or definition.agent in evidence.only_read
    return not is_read and (task, step) not in evidence.given


def net_effect(evidence: Evidence) -> Iterator[Violation]:
    """Find final states that the ledger contradicts."""
    for task, rows in evidence.tasks.items():
        if rows.task is None:
            continue
        check = {"Processed": _processed, "Compensated": _compensated}.get(rows.task.state)
        if check is not None:
            for what in check(evidence, task, rows):
                yield Violation(Invariant.NET_EFFECT, task, what)


def _processed(evidence: Evidence, task: str, rows: TaskRows) -> Iterator[str]:
    for step in rows.steps:
        key = f"{task}.{evidence.births[task]}/{step.name}"
        was_begun = evidence.ledger.done[key] or key in evidence.children
        if step.state == "Completed" and not was_begun and _has_effect(evidence, task, step.name):
            yield f"Processed, but {step.name} was never done"
        if evidence.ledger.undone[key]:
            yield f"Processed, but {step.name} was undone"
        if step.state == "Skipped" and was_begun:
            yield f"Processed without {step.name}, which was done"


def _compensated(evidence: Evidence, task: str, rows: TaskRows) -> Iterator[str]:
    for step in rows.steps:
        key = f"{task}.{evidence.births[task]}/{step.name}"
        definition = evidence.steps.step(step.name)
        is_undone = definition.undo or definition.via is Way.WORKFLOW
        if definition.undo and key in evidence.ledger.stands:
            yield f"Compensated, but {step.name} stands ({step.state})"
        elif is_undone and step.started_at is not None and step.state != "Undone":
            yield f"Compensated, but {step.name} is {step.state}"
