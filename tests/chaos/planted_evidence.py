"""Evidence of correct runs, in which tests plant one defect each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.workflows.registry import load_registrations
from tests.chaos.evidence.observer import Observer
from tests.chaos.evidence.outcome import ChaosOutcome
from tests.chaos.plan import InjectedFault, make_plan
from tests.simulation.checks.alerts import PostedAlert
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.rows import RawEpoch, RawStep, RawTask, TaskRows
from tests.simulation.remotes.ledger import RemoteCall, RemoteLedger

ORDER = "order-1"
BIRTH = "0a1b2c3d"
_START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def task(state: str, epoch: int, **changed: Any) -> RawTask:
    """Make a task's row."""
    return RawTask(state=state, epoch=epoch, failure_count=0, direction="do").model_copy(update=changed)


def step(state: str, epoch: int) -> RawStep:
    """Make the row of the payment."""
    return RawStep(name="payment", state=state, epoch=epoch, started_at=_START)


def epoch(number: int, ended_by: str, state: str, step_state: str) -> RawEpoch:
    """Make a closed epoch."""
    return RawEpoch(
        epoch=number,
        ended_by=ended_by,
        ended_at=_START + timedelta(seconds=number),
        state=state,
        direction="do",
        locked_by=f"{ORDER}.{number}",
        steps=(step(step_state, number),),
    )


def ledger(*keys: str) -> RemoteLedger:
    """Make the ledger of a payment service that carried out calls with these keys."""
    kept = RemoteLedger()
    for key in keys:
        kept.calls.append(RemoteCall("payment", key, 0.0))
        kept.carry_out(kept.calls[-1], 0.0)
    return kept


def key(direction: str, birth: str = BIRTH) -> str:
    """Make the idempotency key of the payment, or of its undo."""
    return f"{ORDER}.{birth}/payment/{direction}"


def notice(kind: str, number: int) -> dict[str, object]:
    """Make a notice about an epoch."""
    return {"kind": kind, "id": ORDER, "epoch": number, "correlation_id": f"for-{ORDER}"}


def outcome(*seen: RawTask, steps: tuple[RawStep, ...], history: tuple[RawEpoch, ...] = ()) -> ChaosOutcome:
    """Make the outcome of a run with one paid order; `seen` are the versions of its row."""
    observer = Observer()
    for version in seen:
        observer.record({ORDER: TaskRows(task=version)})
    evidence = Evidence(
        tasks={ORDER: TaskRows(task=seen[-1], steps=steps, history=history)},
        births={ORDER: BIRTH},
        journal=observer.journal,
        steps=StepsByName(load_registrations()),
        ledger=ledger(key("do")),
        only_read=(),
        notices=(notice("received", 1), notice("completed", 1)),
        alerts=(),
        dead_alerts=(),
        rejected=(),
        accepted=[ORDER],
        refused={},
        cancelled=(),
        leftovers=(),
        most_recoveries=6,
    )
    counts = dict.fromkeys(InjectedFault, 1)
    return ChaosOutcome(evidence=evidence, plan=make_plan(1, 1, 1), fault_counts=counts, looks=1, settled=1)


def changed(base: ChaosOutcome, **fields: Any) -> ChaosOutcome:
    """Return the outcome with other fields of its evidence."""
    return replace(base, evidence=replace(base.evidence, **fields))


def processed() -> ChaosOutcome:
    """Return the outcome of an order that was paid at once."""
    claimed = task("Processing", 1, locked_by=f"{ORDER}.1")
    return outcome(task("Pending", 1), claimed, task("Processed", 1), steps=(step("Completed", 1),))


def compensated() -> ChaosOutcome:
    """Return the outcome of an order that was recovered once, exhausted, and undone."""
    history = (epoch(1, "recovered", "Processing", "Running"), epoch(2, "exhausted", "Processing", "Running"))
    end = task("Compensated", 3, direction="undo")
    base = outcome(task("Processing", 2, failure_count=1), end, steps=(step("Undone", 3),), history=history)
    return changed(
        base,
        ledger=ledger(key("do"), key("do"), key("undo")),
        notices=(notice("received", 1), notice("compensated", 3)),
        alerts=(PostedAlert(ORDER, 2, "given up"),),
    )


def cancelled() -> ChaosOutcome:
    """Return the outcome of an order that was paid, and then cancelled by its caller."""
    end = task("Compensated", 2, direction="undo")
    history = (epoch(1, "cancelled", "Processed", "Completed"),)
    return changed(
        outcome(task("Processed", 1), end, steps=(step("Undone", 2),), history=history),
        cancelled=[ORDER],
        ledger=ledger(key("do"), key("undo")),
        notices=(notice("received", 1), notice("completed", 1), notice("compensated", 2)),
    )


def refused() -> ChaosOutcome:
    """Return the outcome of an order that the service refused, and that waits for an operator."""
    return changed(
        outcome(task("Error", 1), steps=(step("Failed", 1),)),
        ledger=ledger(),
        notices=(notice("received", 1), notice("failed", 1)),
        alerts=(PostedAlert(ORDER, 1, "refused"),),
    )
