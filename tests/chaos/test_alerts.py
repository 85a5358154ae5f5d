"""Alerts against what happened: singly, in groups, of what is parked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.evidence.alerts import PostedAlert, grouped, posted, unnamed
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.invariants import Invariant, violations
from tests.chaos.sample_evidence import ORDER, after, compensated, notice, processed, rows, step, task


@pytest.mark.parametrize(
    ("named", "tasks", "is_broken"),
    [
        (f"{ORDER} (epoch 2)", 1, False),
        (f"{ORDER} (epoch 7)", 1, True),
        ("", 1, False),
        ("", 0, True),
    ],
)
def test_alert_may_be_told_with_others(named: str, tasks: int, *, is_broken: bool) -> None:
    """By its name; of a group that is too large to name all, the count must fit."""
    told = grouped(named.split(", "), tasks, "many", ())
    assert (Invariant.ALERTS in _broken(replace(compensated(), alerts=tuple(told)))) is is_broken


def test_group_that_is_posted_again_excuses_no_other_alert() -> None:
    """Its answer was lost, or another host told of it as well; it may have grown meanwhile."""
    group = {"event": "operator alerts", "workflow": "orders", "state": "Error", "reason": "x", "named": ""}
    at = {"since": after(0).isoformat()}
    again = [each for tasks in (21, 22) for each in posted({**group, **at, "tasks": tasks})]
    others = posted({**group, "since": after(300).isoformat(), "tasks": 3})
    assert unnamed([*again, *others]) == 25


def test_parked_task_is_alerted_once_or_for_each_reason() -> None:
    """Its version was not deployed where it was taken up: an alert tells of it, though nothing failed."""
    first = (
        compensated().tasks[ORDER].history[0].model_copy(update={"ended_by": "released", "state": "Pending"})
    )
    again = first.model_copy(update={"epoch": 2, "ended_at": after(12)})
    end = task("Processed", 3)
    done = rows(end, step("Completed", 3, started=13, finished=14), history=(first, again))
    notices = (notice("received", 1, 0.5), notice("completed", 3, 14))
    evidence = replace(processed(), tasks={ORDER: done}, notices=notices)
    told = [PostedAlert(ORDER, epoch, "version 2 of 'orders' is not deployed here") for epoch in (1, 2, 3)]
    assert Invariant.ALERTS in _broken(evidence)
    assert Invariant.ALERTS not in _broken(replace(evidence, alerts=told[:1]))
    assert Invariant.ALERTS not in _broken(replace(evidence, alerts=told[:2]))
    assert Invariant.ALERTS in _broken(replace(evidence, alerts=told))
    by_hand = done.model_copy(update={"history": (first.model_copy(update={"ended_by": "parked"}), again)})
    assert Invariant.ALERTS not in _broken(replace(evidence, tasks={ORDER: by_hand}, alerts=told[:2]))


def _broken(evidence: Evidence) -> set[Invariant]:
    return {violation.invariant for violation in violations(evidence)}
