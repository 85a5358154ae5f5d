"""Made-up evidence: runs in which everything is right, to be spoilt one thing at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.chaos.alerts import Alert
from tests.chaos.evidence import Evidence, Settling
from tests.chaos.faults import FaultKind
from tests.chaos.limits import Limits
from tests.chaos.notices import Notice
from tests.chaos.observer import Sightings
from tests.chaos.payments.ledger import Call, Direction, Effect
from tests.chaos.plan import Fate, Plan, PlannedOrder, Poison
from tests.chaos.rows import EpochRow, StepRow, TaskRow, TaskRows

ORDER = "order-1"
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
POISON = Poison("poison-1", 0.0, b"{")


def after(seconds: float) -> datetime:
    """Give the time so many seconds after the run's start."""
    return START + timedelta(seconds=seconds)


def call(
    direction: Direction, at: float, effect: Effect = Effect.PERFORMED, *, key: str | None = None
) -> Call:
    """Make a call that was carried out as soon as it arrived."""
    return Call(ORDER, key or f"{ORDER}/payment/{direction}", direction, after(at), effect, after(at))


def step(state: str, epoch: int, *, started: float, finished: float | None = None) -> StepRow:
    """Make a step that had 4 seconds."""
    return StepRow(
        name="payment",
        state=state,
        epoch=epoch,
        started_at=after(started),
        complete_by=after(started + 4),
        finished_at=None if finished is None else after(finished),
    )


def task(state: str, epoch: int, **changed: Any) -> TaskRow:
    """Make a task's row."""
    row = TaskRow(state=state, epoch=epoch, failure_count=0, direction="do", write_id=f"{state}-{epoch}")
    return row.model_copy(update=changed)


def rows(the_task: TaskRow, *steps: StepRow, history: tuple[EpochRow, ...] = ()) -> TaskRows:
    """Make all rows of a task."""
    index = ("!done|20260101|order-1",)
    return TaskRows(task=the_task, has_order=True, steps=steps, history=history, index=index)


def notice(kind: str, epoch: int, at: float) -> Notice:
    """Make a notice."""
    return Notice(kind=kind, order_id=ORDER, epoch=epoch, at=after(at), correlation_id=f"for-{ORDER}")


def processed() -> Evidence:
    """Give the evidence of one order that was paid at once."""
    seen = [task("Pending", 1), task("Processing", 1, locked_by=f"{ORDER}.1"), task("Processed", 1)]
    return Evidence(
        plan=Plan(1, 60.0, (PlannedOrder(ORDER, 0.0, Fate.SMOOTH, None),), (POISON,)),
        limits=Limits(),
        settling=Settling(seconds=1.0, leftovers=()),
        fired=dict.fromkeys(FaultKind, 1),
        host_pauses=(),
        accepted={ORDER: START},
        refused={},
        both_won=(),
        tasks={ORDER: rows(seen[-1], step("Completed", 1, started=1, finished=2))},
        rejected=({"MessageID": POISON.id, "Body": b"{"},),
        sightings=Sightings({ORDER: seen}, [], 3),
        calls=(call(Direction.DO, 1.5),),
        notices=(notice("received", 1, 0.5), notice("completed", 1, 2)),
        alerts=(),
    )


def compensated() -> Evidence:
    """Give the evidence of one order that was recovered once, given up, and undone."""
    recovered = EpochRow(
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
        sightings=Sightings({ORDER: [task("Processing", 2, failure_count=1), end]}, [], 3),
        calls=(call(Direction.DO, 1.5), call(Direction.DO, 7.5, Effect.REPEATED), call(Direction.UNDO, 13.5)),
        notices=(notice("received", 1, 0.5), notice("compensated", 3, 14)),
        alerts=(Alert(ORDER, 2, "given up"),),
    )


def held() -> Evidence:
    """Give the evidence of one order that was refused, and waits for an operator."""
    end = task("Error", 1, last_error="payment: refused")
    return replace(
        processed(),
        tasks={ORDER: rows(end, step("Failed", 1, started=1, finished=2))},
        sightings=Sightings({ORDER: [end]}, [], 3),
        calls=(call(Direction.DO, 1.5, Effect.NONE),),
        notices=(notice("received", 1, 0.5), notice("failed", 1, 2)),
        alerts=(Alert(ORDER, 1, "refused"),),
    )
