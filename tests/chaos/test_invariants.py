"""Each judged invariant holds for a correct run, and a planted defect violates it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.evidence.outcome import JUDGED, ChaosOutcome
from tests.chaos.plan import InjectedFault
from tests.chaos.planted_evidence import (
    ORDER,
    cancelled,
    changed,
    compensated,
    epoch,
    key,
    ledger,
    notice,
    outcome,
    processed,
    refused,
    step,
    task,
)
from tests.simulation.checks.alerts import PostedAlert
from tests.simulation.checks.violations import Invariant

#: Defects in the evidence of a correct run: the invariant, the run, the changed fields of its evidence.
_DEFECTS: list[tuple[Invariant, Callable[[], ChaosOutcome], dict[str, Any]]] = [
    (Invariant.NO_LOSS, processed, {"tasks": {}}),
    (Invariant.NO_LOSS, processed, {"refused": {ORDER: "409"}}),
    (Invariant.NO_LOSS, processed, {"rejected": [{"Queue": "agent-replies", "Reason": "10 deliveries"}]}),
    (Invariant.ONE_EFFECT, processed, {"ledger": ledger(key("do"), key("do", "ffffffff"))}),
    (Invariant.ONE_EFFECT, processed, {"births": {ORDER: "ffffffff"}}),
    (Invariant.NET_EFFECT, processed, {"ledger": ledger()}),
    (Invariant.NET_EFFECT, processed, {"ledger": ledger(key("do"), key("undo"))}),
    (Invariant.NET_EFFECT, compensated, {"ledger": ledger(key("do"))}),
    (Invariant.NET_EFFECT, cancelled, {"ledger": ledger(key("do"))}),
    (Invariant.TERMINATION, processed, {"leftovers": [f"{ORDER}|is Processing"]}),
    (Invariant.TERMINATION, processed, {"leftovers": ["queue x holds 1 messages"]}),
    (Invariant.STATUS_AGREES, processed, {"notices": [notice("received", 1)]}),
    (Invariant.STATUS_AGREES, compensated, {"notices": [notice("received", 1), notice("completed", 3)]}),
    (Invariant.ALERTS, processed, {"alerts": [PostedAlert(ORDER, 1, "without need")]}),
    (Invariant.ALERTS, compensated, {"alerts": ()}),
    (Invariant.ALERTS, refused, {"alerts": ()}),
    (Invariant.CANCELLED, processed, {"cancelled": [ORDER]}),
]


@pytest.mark.parametrize("correct", [processed, compensated, cancelled, refused])
def test_correct_run_violates_nothing(correct: Callable[[], ChaosOutcome]) -> None:
    """Processed at once; recovered, exhausted and undone; cancelled; refused."""
    assert correct().violations() == []


@pytest.mark.parametrize(("invariant", "correct", "defect"), _DEFECTS)
def test_defect_of_the_evidence_is_found(
    invariant: Invariant, correct: Callable[[], ChaosOutcome], defect: dict[str, Any]
) -> None:
    """One field of the evidence is wrong."""
    assert invariant in _broken(changed(correct(), **defect))


@pytest.mark.parametrize(
    ("invariant", "seen"),
    [
        (Invariant.MUTUAL_EXCLUSION, [task("Processing", 2), task("Processed", 1)]),
        (Invariant.MUTUAL_EXCLUSION, [task("Processing", 1, locked_by="order-1.2"), task("Processed", 1)]),
        (Invariant.MONOTONE, [task("Error", 1), task("Processed", 1)]),
        (Invariant.MONOTONE, [task("Processing", 1, direction="undo"), task("Processed", 1)]),
        (Invariant.FAILURE_COUNT, [task("Pending", 1, failure_count=7), task("Processed", 1)]),
        (Invariant.FAILURE_COUNT, [task("Processed", 1, failure_count=1)]),
    ],
)
def test_defect_of_a_version_that_was_seen_is_found(invariant: Invariant, seen: list[Any]) -> None:
    """The row of the task was wrong at one look."""
    assert invariant in _broken(outcome(*seen, steps=(step("Completed", 1),)))


def test_recovery_of_a_task_in_error_is_found() -> None:
    """Only an operator, or a cancel, leads out of `Error`."""
    wrong = outcome(
        task("Processed", 2, failure_count=1),
        steps=(step("Completed", 2),),
        history=(epoch(1, "recovered", "Error", "Failed"),),
    )
    assert Invariant.MONOTONE in _broken(wrong)


def test_fault_without_effect_is_found() -> None:
    """The run proves nothing about this fault."""
    counts = dict.fromkeys(InjectedFault, 1) | {InjectedFault.HOST_KILLED: 0}
    assert _broken(replace(processed(), fault_counts=counts)) == {Invariant.NOT_VACUOUS}
    assert _broken(replace(processed(), looks=0)) == {Invariant.NOT_VACUOUS}


def test_every_invariant_can_be_violated() -> None:
    """This evidence violates all invariants that chaos judges, and no other one."""
    seen = (task("Processed", 2), task("Error", 1, failure_count=9))
    spoilt = changed(
        outcome(*seen, task("Processed", 1), steps=(step("Completed", 1),)),
        ledger=ledger(key("undo"), key("undo", "ffffffff")),
        cancelled=[ORDER],
        refused={ORDER: "409"},
        leftovers=["queue x holds 1 messages"],
        notices=(),
        alerts=[PostedAlert(ORDER, 7, "without need")],
    )
    assert _broken(replace(spoilt, fault_counts={})) == JUDGED


def test_evidence_of_a_violation_is_kept(tmp_path: Path) -> None:
    """The file has the violations, the rows and the calls; bytes that are no text do not prevent that."""
    broken = changed(compensated(), notices=(), rejected=[{"Queue": "x", "Reason": "y", "Body0": b"\xff"}])
    broken.keep(broken.violations(), tmp_path)
    kept = json.loads((tmp_path / "evidence.json").read_bytes())
    assert {each["order"] for each in kept["violations"]} == {ORDER, None}
    assert [each["key"].rpartition("/")[2] for each in kept["evidence"]["ledger"]["calls"]] == [
        "do",
        "do",
        "undo",
    ]
    assert [each["EndedBy"] for each in kept["evidence"]["tasks"][ORDER]["history"]] == [
        "recovered",
        "exhausted",
    ]


def _broken(judged: ChaosOutcome) -> set[Invariant]:
    return {violation.invariant for violation in judged.violations()}
