"""Sample evidence of correct runs, which tests spoil in one detail each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.chaos.app.sending import Sending
from tests.chaos.evidence.alerts import PostedAlert
from tests.chaos.evidence.clocks import ToldTimes
from tests.chaos.evidence.evidence import Evidence, Settling
from tests.chaos.evidence.notices import Notice
from tests.chaos.evidence.observer import Observations
from tests.chaos.evidence.rows import RawEpoch, RawStep, RawTask, TaskRows
from tests.chaos.plan.faults import InjectedFault
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan, PlannedOrder, Poison, Scenario
from tests.chaos.remotes.ledger import CallDirection, Effect, ServiceCall

ORDER = "order-1"
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
POISON = Poison("poison-1", 0.0, b"{")


def after(seconds: float) -> datetime:
    """Return the time so many seconds after the start of the run."""
    return START + timedelta(seconds=seconds)


def sending(at: float, *, turn: float | None = None, within: float = 3) -> Sending:
    """Make the sending of a call, by an Agent that had so many seconds for it, from then on."""
    end = after(at + within)
    return Sending(at=after(at), turn=after(at if turn is None else turn), ends_at=end, complete_by=end)


def call(
    direction: CallDirection, at: float, effect: Effect = Effect.PERFORMED, *, key: str | None = None
) -> ServiceCall:
    """Make a call that arrived, and was carried out, as soon as it was sent."""
    key = key or f"{ORDER}.0a1b2c3d/payment/{direction}"
    return ServiceCall(ORDER, key, direction, sending(at), after(at), effect, after(at))


def step(state: str, epoch: int, *, started: float, finished: float | None = None) -> RawStep:
    """Make a step with a time limit of 4 seconds."""
    return RawStep(
        name="payment",
        state=state,
        epoch=epoch,
        started_at=after(started),
        complete_by=after(started + 4),
        finished_at=None if finished is None else after(finished),
    )


def task(state: str, epoch: int, **changed: Any) -> RawTask:
    """Make a task's row."""
    row = RawTask(state=state, epoch=epoch, failure_count=0, direction="do", updated_at=START)
    return row.model_copy(update=changed)


def rows(
    the_task: RawTask,
    *steps: RawStep,
    history: tuple[RawEpoch, ...] = (),
    workflow: tuple[str, int] = ("orders", 1),
) -> TaskRows:
    """Make all rows of a task, of a workflow in a version."""
    index = ("!done|20260101|order-1",)
    name, version = workflow
    return TaskRows(
        task=the_task,
        has_order=True,
        workflow=name,
        version=version,
        steps=steps,
        history=history,
        index=index,
    )


def notice(kind: str, epoch: int, at: float) -> Notice:
    """Make a notice."""
    return Notice(kind=kind, id=ORDER, epoch=epoch, at=after(at), correlation_id=f"for-{ORDER}")


def _plan(scenario: Scenario) -> Plan:
    cancelled = 0.0 if scenario is Scenario.CANCELLED else None
    return Plan(1, 60.0, (PlannedOrder(ORDER, 0.0, scenario, None, cancelled),), (POISON,))


def processed() -> Evidence:
    """Return the evidence of one order that was paid at once."""
    seen = [task("Pending", 1), task("Processing", 1, locked_by=f"{ORDER}.1"), task("Processed", 1)]
    return Evidence(
        plan=_plan(Scenario.SMOOTH),
        limits=Limits(),
        settling=Settling(seconds=1.0, leftovers=()),
        fault_counts=dict.fromkeys(InjectedFault, 1),
        told=ToldTimes(),
        accepted={ORDER: START},
        refused={},
        cancelled=(),
        both_won=(),
        tasks={ORDER: rows(seen[-1], step("Completed", 1, started=1, finished=2))},
        rejected=({"MessageID": POISON.id, "Body0": b"{"},),
        observations=Observations({ORDER: seen}, [], 3),
        asked={},
        calls=(call(CallDirection.DO, 1.5),),
        notices=(notice("received", 1, 0.5), notice("completed", 1, 2)),
        alerts=(),
    )


def compensated() -> Evidence:
    """Return the evidence of one order that was recovered once, given up, and undone."""
    recovered = RawEpoch(
        epoch=1,
        ended_by="recovered",
        ended_at=after(6),
        state="Processing",
        direction="do",
        locked_by=f"{ORDER}.1",
        steps=(step("Running", 1, started=1),),
    )
    exhausted = recovered.model_copy(
        update={
            "epoch": 2,
            "ended_by": "exhausted",
            "ended_at": after(12),
            "locked_by": f"{ORDER}.2",
            "steps": (step("Running", 2, started=7),),
        }
    )
    undone = step("Undone", 3, started=13, finished=14).model_copy(update={"started_at": after(7)})
    end = task("Compensated", 3, direction="undo")
    return replace(
        processed(),
        tasks={ORDER: rows(end, undone, history=(recovered, exhausted))},
        observations=Observations({ORDER: [task("Processing", 2, failure_count=1), end]}, [], 3),
        calls=(
            call(CallDirection.DO, 1.5),
            call(CallDirection.DO, 7.5, Effect.REPEATED),
            call(CallDirection.UNDO, 13.5),
        ),
        notices=(notice("received", 1, 0.5), notice("compensated", 3, 14)),
        alerts=(PostedAlert(ORDER, 2, "given up"),),
    )


def cancelled() -> Evidence:
    """Return the evidence of one order that was paid, and then cancelled by its caller."""
    paid = RawEpoch(
        epoch=1,
        ended_by="cancelled",
        ended_at=after(6),
        state="Processed",
        direction="do",
        locked_by=f"{ORDER}.1",
        steps=(step("Completed", 1, started=1, finished=2),),
    )
    undone = step("Undone", 2, started=6, finished=8).model_copy(update={"started_at": after(1)})
    end = task("Compensated", 2, direction="undo")
    return replace(
        processed(),
        plan=_plan(Scenario.CANCELLED),
        cancelled={ORDER},
        tasks={ORDER: rows(end, undone, history=(paid,))},
        observations=Observations({ORDER: [task("Processed", 1), end]}, [], 3),
        calls=(call(CallDirection.DO, 1.5), call(CallDirection.UNDO, 7)),
        notices=(notice("received", 1, 0.5), notice("completed", 1, 2), notice("compensated", 2, 8)),
    )


def held() -> Evidence:
    """Return the evidence of one order that was refused, and waits for an operator."""
    end = task("Error", 1, last_error="payment: refused")
    return replace(
        processed(),
        tasks={ORDER: rows(end, step("Failed", 1, started=1, finished=2))},
        observations=Observations({ORDER: [end]}, [], 3),
        calls=(call(CallDirection.DO, 1.5, Effect.NONE),),
        notices=(notice("received", 1, 0.5), notice("failed", 1, 2)),
        alerts=(PostedAlert(ORDER, 1, "refused"),),
    )
