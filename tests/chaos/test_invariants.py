"""Each invariant holds for a correct run, and is violated by the one thing that it forbids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.evidence.alerts import PostedAlert
from tests.chaos.evidence.evidence import Evidence, Settling
from tests.chaos.evidence.observer import Observations
from tests.chaos.evidence.rows import RawEpoch, TaskRows
from tests.chaos.invariants import Invariant, violations
from tests.chaos.invariants.violations import SIMULATED
from tests.chaos.plan.faults import InjectedFault
from tests.chaos.remotes.ledger import CallDirection, Effect
from tests.chaos.sample_evidence import (
    ORDER,
    after,
    call,
    cancelled,
    compensated,
    held,
    notice,
    processed,
    rows,
    step,
    task,
)


@pytest.mark.parametrize("evidence", [processed, compensated, cancelled, held])
def test_correct_run_violates_nothing(evidence: Callable[[], Evidence]) -> None:
    """Processed at once; recovered, given up and undone; cancelled; refused and held."""
    assert violations(evidence()) == []


def test_lost_order_is_found() -> None:
    """Answered 202, but there is neither a task nor an alert."""
    assert _broken(replace(processed(), tasks={})) >= {Invariant.NO_LOSS}


def test_order_that_an_alert_names_is_not_lost() -> None:
    """A dead letter with a record and an alert is not lost; but its order is not finished."""
    alert = PostedAlert(None, None, f'{{"message_id": "{ORDER}.1"}}')
    dead = {"MessageID": "x", "Body0": f'{{"task_id": "{ORDER}"}}'.encode()}
    spoilt = replace(processed(), tasks={}, calls=(), notices=(), alerts=(alert,))
    spoilt = replace(spoilt, rejected=(*spoilt.rejected, dead), observations=Observations({}, [], 1))
    assert _broken(spoilt) == {Invariant.TERMINATION}


@pytest.mark.parametrize(
    ("invariant", "changed"),
    [
        (Invariant.NO_LOSS, {"rejected": ()}),
        (Invariant.NO_LOSS, {"refused": {ORDER: "409"}}),
        (
            Invariant.ONE_EFFECT,
            {"calls": (call(CallDirection.DO, 1.5), call(CallDirection.DO, 1.6, key="order-1.2"))},
        ),
        (Invariant.NET_EFFECT, {"calls": (call(CallDirection.DO, 1.5, Effect.NONE),)}),
        (Invariant.NET_EFFECT, {"calls": (call(CallDirection.DO, 1.5), call(CallDirection.UNDO, 1.7))}),
        (Invariant.MUTUAL_EXCLUSION, {"both_won": (ORDER,)}),
        (Invariant.ORDER, {"calls": (call(CallDirection.DO, 0.9),)}),
        (Invariant.ORDER, {"calls": (call(CallDirection.DO, 1.5), call(CallDirection.UNDO, 1.7))}),
        (Invariant.TERMINATION, {"accepted": {}}),
        (
            Invariant.TERMINATION,
            {"settling": Settling(seconds=250.0, leftovers=["queue x holds 1 messages"])},
        ),
        (Invariant.TERMINATION, {"settling": Settling(seconds=10_000.0, leftovers=())}),
        (
            Invariant.SILENCE_OF_THE_LATE,
            {"calls": (call(CallDirection.DO, 1.5), call(CallDirection.DO, 6.5))},
        ),
        (Invariant.ATOMIC_BIRTH, {"observations": Observations({}, [ORDER], 1)}),
        (Invariant.CANCELLED, {"cancelled": {ORDER}}),
        (Invariant.STATUS_AGREES, {"notices": (notice("received", 1, 0.5),)}),
        (Invariant.STATUS_AGREES, {"notices": (notice("completed", 1, 0.5), notice("received", 1, 2))}),
        (Invariant.ALERTS, {"alerts": (PostedAlert(ORDER, 1, "without need"),)}),
        (
            Invariant.NOT_VACUOUS,
            {"fault_counts": dict.fromkeys(set(InjectedFault) - {InjectedFault.HOST_KILLED}, 1)},
        ),
        (Invariant.NOT_VACUOUS, {"observations": Observations({}, [], 0)}),
    ],
)
def test_what_spoils_a_processed_order_is_found(invariant: Invariant, changed: dict[str, Any]) -> None:
    """One thing is wrong, and the invariant that forbids it is violated."""
    assert invariant in _broken(replace(processed(), **changed))


@pytest.mark.parametrize(
    ("invariant", "seen"),
    [
        (Invariant.MUTUAL_EXCLUSION, [task("Processing", 2), task("Processed", 1)]),
        (Invariant.MUTUAL_EXCLUSION, [task("Processing", 1, locked_by="order-1.2")]),
        (Invariant.MONOTONE, [task("Processing", 1), task("Pending", 1)]),
        (Invariant.MONOTONE, [task("Error", 1), task("Error", 1, updated_at=after(1))]),
        (Invariant.MONOTONE, [task("Processed", 1), task("Pending", 2)]),
        (Invariant.FAILURE_COUNT, [task("Pending", 1, failure_count=7)]),
    ],
)
def test_what_was_wrong_for_a_moment_is_found(invariant: Invariant, seen: list[Any]) -> None:
    """The end is correct, but what was observed before is not."""
    assert invariant in _broken(replace(processed(), observations=Observations({ORDER: seen}, [], 1)))


def test_task_that_waits_is_given_back_in_its_epoch() -> None:
    """It is `Pending` again, and nobody was asked to go on with it; a run of its own is only begun later."""
    waits = task("Pending", 1).model_copy(update={"complete_by": None, "not_before": after(60)})
    seen = [task("Processing", 1), waits, task("Processing", 1), task("Processed", 1)]
    evidence = replace(processed(), observations=Observations({ORDER: seen}, [], 1))
    assert Invariant.MONOTONE not in _broken(evidence)


@pytest.mark.parametrize(
    ("invariant", "spoilt"),
    [
        (Invariant.MUTUAL_EXCLUSION, rows(task("Processed", 2), step("Completed", 1, started=1, finished=2))),
        (Invariant.TERMINATION, rows(task("Processing", 1), step("Running", 1, started=1))),
        (
            Invariant.SILENCE_OF_THE_LATE,
            rows(task("Processed", 1), step("Completed", 1, started=1, finished=6)),
        ),
        (
            Invariant.FAILURE_COUNT,
            rows(task("Processed", 1, failure_count=1), step("Completed", 1, started=1)),
        ),
        (Invariant.ATOMIC_BIRTH, rows(task("Processed", 1))),
    ],
)
def test_what_is_wrong_at_the_end_is_found(invariant: Invariant, spoilt: TaskRows) -> None:
    """The rows at the end show it."""
    assert invariant in _broken(replace(processed(), tasks={ORDER: spoilt}))


@pytest.mark.parametrize(
    ("ended_by", "is_broken"), [("refused", False), ("cancelled", False), ("resubmitted", True)]
)
def test_epoch_may_end_before_a_scheduler_begins_it(ended_by: str, *, is_broken: bool) -> None:
    """A wait that the epoch before began ends meanwhile, say; only an operator leads out of `Error`."""
    evidence = compensated()
    recovered, unclaimed = evidence.tasks[ORDER].history
    ended = unclaimed.model_copy(update={"state": "Pending", "locked_by": None, "ended_by": ended_by})
    spoilt = evidence.tasks[ORDER].model_copy(update={"history": (recovered, ended)})
    assert (Invariant.MONOTONE in _broken(replace(evidence, tasks={ORDER: spoilt}))) is is_broken


@pytest.mark.parametrize(
    ("invariant", "changed"),
    [
        (Invariant.NET_EFFECT, {"calls": (call(CallDirection.DO, 1.5),)}),
        (Invariant.NET_EFFECT, {"calls": (call(CallDirection.UNDO, 13.5), call(CallDirection.DO, 13.7))}),
        (Invariant.ORDER, {"calls": (call(CallDirection.DO, 1.5), call(CallDirection.UNDO, 11.9))}),
        (Invariant.ALERTS, {"alerts": ()}),
        (Invariant.STATUS_AGREES, {"notices": (notice("received", 1, 0.5), notice("completed", 3, 14))}),
    ],
)
def test_what_spoils_a_compensated_order_is_found(invariant: Invariant, changed: dict[str, Any]) -> None:
    """One thing is wrong, and the invariant that forbids it is violated."""
    assert invariant in _broken(replace(compensated(), **changed))


def test_what_spoils_a_cancelled_order_is_found() -> None:
    """Nobody asked for it; it was done twice; it led out of `Error`; the task is gone."""
    evidence = cancelled()
    assert _broken(replace(evidence, plan=processed().plan)) == {Invariant.CANCELLED}
    its_rows = evidence.tasks[ORDER]
    [paid] = its_rows.history
    again = paid.model_copy(update={"epoch": 2, "direction": "undo"})
    twice = its_rows.model_copy(update={"history": (paid, again)})
    assert Invariant.CANCELLED in _broken(replace(evidence, tasks={ORDER: twice}))
    held_before = its_rows.model_copy(update={"history": (paid.model_copy(update={"state": "Error"}),)})
    assert Invariant.MONOTONE in _broken(replace(evidence, tasks={ORDER: held_before}))
    missing = replace(evidence, tasks={ORDER: TaskRows()})
    assert Invariant.CANCELLED in _broken(missing)


@pytest.mark.parametrize(("finished", "is_broken"), [(1.9, False), (3.0, True)])
def test_outcome_of_an_epoch_that_had_ended_is_found(finished: float, *, is_broken: bool) -> None:
    """It counts though the Supervisor had ended the step's epoch at the second second."""
    ended = compensated().tasks[ORDER].history[0].model_copy(update={"ended_at": after(2)})
    end = task("Processed", 2, failure_count=1)
    done = rows(end, step("Completed", 1, started=1, finished=finished), history=(ended,))
    found = _broken(replace(processed(), tasks={ORDER: done}))
    assert (Invariant.MUTUAL_EXCLUSION in found) is is_broken


def test_call_for_what_has_no_task_is_found() -> None:
    """Nobody planned it, and its rows are gone, or never were."""
    stranger = replace(call(CallDirection.DO, 1.5), order="c-0123", key="c-0123.0a1b2c3d/payment/do")
    evidence = replace(processed(), calls=(*processed().calls, stranger))
    assert _broken(evidence) == {Invariant.ONE_EFFECT}


@pytest.mark.parametrize(("version", "is_broken"), [(2, True), (3, False)])
def test_orders_go_by_the_version_that_they_have(version: int, *, is_broken: bool) -> None:
    """The receipt needs the payment, or the payment the receipt, by turns."""
    paid = step("Completed", 1, started=3, finished=4)
    receipt = step("Completed", 1, started=1, finished=2).model_copy(update={"name": "receipt"})
    calls = [
        call(CallDirection.DO, at, key=f"{ORDER}.0a1b2c3d/{name}/do")
        for name, at in (("receipt", 1.5), ("payment", 3.5))
    ]
    its_rows = rows(task("Processed", 1), paid, receipt, workflow=("orders", version))
    evidence = replace(processed(), tasks={ORDER: its_rows}, calls=calls)
    assert (Invariant.ORDER in _broken(evidence)) is is_broken


def test_only_an_operator_restarts_a_finished_task() -> None:
    """A Supervisor that recovers a task in `Error` breaks the rule."""
    evidence = compensated()
    wrong = evidence.tasks[ORDER].history[0].model_copy(update={"state": "Error"})
    spoilt = evidence.tasks[ORDER].model_copy(update={"history": (wrong, *evidence.tasks[ORDER].history[1:])})
    assert Invariant.MONOTONE in _broken(replace(evidence, tasks={ORDER: spoilt}))


def test_task_that_nobody_submitted_is_found() -> None:
    """Every task comes from a caller."""
    evidence = processed()
    assert Invariant.NO_LOSS in _broken(replace(evidence, tasks={**evidence.tasks, "stranger": TaskRows()}))


def test_every_invariant_can_be_violated() -> None:
    """Each has its check: this evidence violates all of them."""
    assert {violation.invariant for violation in violations(_spoilt_altogether())} == set(
        Invariant
    ) - SIMULATED


def _broken(evidence: Evidence) -> set[Invariant]:
    return {violation.invariant for violation in violations(evidence)}


def _spoilt_altogether() -> Evidence:
    wrong = rows(task("Processing", 3, failure_count=9), step("Completed", 1, started=1, finished=9))
    seen = [task("Processed", 2), task("Pending", 2)]
    twice = (call(CallDirection.UNDO, 0.1), call(CallDirection.UNDO, 0.2, key="another"))
    unpaid = rows(task("Processed", 1), step("Completed", 1, started=1, finished=2))
    return replace(
        processed(),
        cancelled={ORDER},
        tasks={ORDER: wrong, "stranger": unpaid},
        observations=Observations({ORDER: seen}, [ORDER], 0),
        calls=twice,
        notices=(),
        alerts=(PostedAlert(ORDER, 7, "without need"),),
    )


@pytest.mark.parametrize(("known", "is_late"), [(2, False), (6, True)])
def test_result_that_an_operator_gives_is_not_late(known: float, *, is_late: bool) -> None:
    """It was known in time that the step was done: only its result was not; later, it would be late."""
    asked = RawEpoch(
        epoch=1,
        ended_by="found done",
        ended_at=after(9),
        state="Error",
        direction="do",
        steps=(step("Unrecorded", 1, started=1, finished=known),),
    )
    answered = rows(task("Processed", 2), step("Completed", 1, started=1, finished=9), history=(asked,))
    found = _broken(replace(processed(), tasks={ORDER: answered}))
    assert (Invariant.SILENCE_OF_THE_LATE in found) is is_late
