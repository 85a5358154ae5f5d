"""Alerts against what happened: singly, in groups, of what is parked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.evidence.alerts import PostedAlert, posted, unnamed
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.invariants import Invariant, violations
from tests.chaos.sample_evidence import ORDER, after, compensated, notice, processed, rows, step, task


@pytest.mark.parametrize(("counted", "is_broken"), [(1, False), (0, True)])
def test_alert_may_be_counted_in_a_summary(counted: int, *, is_broken: bool) -> None:
    """The summary names no task, so its count must be large enough."""
    summary = PostedAlert(None, None, "more alerts", counted)
    assert (Invariant.ALERTS in _broken(replace(compensated(), alerts=(summary,)))) is is_broken


def test_summary_that_is_posted_again_excuses_no_other_alert() -> None:
    """Its answer was lost, and it counts more alerts now; alerts of lost messages are not counted."""
    causes = "operator alert: orders: Error: (no) money ({}); message lost: queue (7); other causes (2)"
    body = {"event": "more alerts", "alerts": 99, "since": after(0).isoformat()}
    again = [posted({**body, "causes": causes.format(count)}) for count in (19, 20)]
    other = posted({**body, "since": after(300).isoformat(), "causes": causes.format(1)})
    assert unnamed([*again, other]) == 25


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
