"""Tasks for the tests of the core, and events of their steps. `at` is in seconds after `NOW`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from functions.core.gate_rules import Gate
from functions.core.record import (
    FailurePolicy,
    Order,
    RuleSettings,
    StepSpec,
    StepType,
    TaskRecord,
)
from functions.core.rules import admit, fold
from functions.core.task_events import (
    Answered,
    Cancelled,
    Canceller,
    Due,
    Event,
    OutcomeKind,
    Rejection,
    Resubmitted,
    Resumed,
    StepEnded,
    StepStarted,
    Suspended,
    UndoRequested,
    Verdict,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = RuleSettings()
_NUMBERS = count(1)
DUE = Due(may_recover=True, queues={"queue:pay": Gate(name="queue:pay")})
WHO: dict[str, Any] = {"who": "op", "reason": "because"}


def at(seconds: float) -> datetime:
    """Return the time of some seconds after the start."""
    return NOW + timedelta(seconds=seconds)


def spec(name: str, *needs: str, **fields: Any) -> StepSpec:
    """Return the spec of a step whose Agent has the step's name."""
    return StepSpec(name=name, **{"needs": frozenset(needs), "agent": name, **fields})


def queue(name: str, **fields: Any) -> StepSpec:
    """Return the spec of a queue step."""
    return spec(name, type=StepType.QUEUE, **fields)


def payment(**fields: Any) -> StepSpec:
    """Return the spec of a step that must not be repeated."""
    return spec("pay", idempotent=False, **{"undo": True, **fields})


def new(*specs: StepSpec, settings: RuleSettings = SETTINGS, **order: Any) -> TaskRecord:
    """Return the record of a new task. By default a refused step is undone, and recoveries end in `Error`."""
    fields: dict[str, Any] = {"on_failure": FailurePolicy.COMPENSATE, "reply_to": "replies", **order}
    made = Order(
        task="t",
        run_id="r",
        workflow="w",
        version=1,
        digest="d",
        specs=specs,
        payload="{}",
        submitter="me",
        submitted_at=NOW,
        **fields,
    )
    return admit(made, NOW, settings)


def after(
    record: TaskRecord, *events: Event, seconds: float = 1, settings: RuleSettings = SETTINGS
) -> TaskRecord:
    """Return the record after events that are accepted. `DUE` decides on all requests of its queues."""
    for event in events:
        applied = fold(record, _counted(record, event), None, at(seconds), settings)
        assert applied.rejection is None, f"{event}: {applied.rejection}"
        record = applied.record
    return record


def _counted(record: TaskRecord, event: Event) -> Event:
    if not isinstance(event, Due) or event.counted:
        return event
    counted = {each.start_id for spec, each in record.operations if spec.gate in event.queues}
    return replace(event, counted=counted)


def rejection(record: TaskRecord, event: Event, seconds: float = 1) -> Rejection | None:
    """Return why an event is rejected; a rejected event leaves the record as it is."""
    applied = fold(record, _counted(record, event), None, at(seconds), SETTINGS)
    assert applied.rejection is None or applied.record is record
    return applied.rejection


def start(
    record: TaskRecord, step: str, start_id: str = "", request: str = "{}", by: float = 30
) -> StepStarted:
    """Return the start of a step by the newest run, with its deadline at `by` seconds."""
    return StepStarted(
        epoch=record.epoch,
        run=record.run,
        step=step,
        start_id=start_id or f"{step}{next(_NUMBERS)}",
        complete_by=at(by),
        request=request,
    )


def begin(record: TaskRecord, *steps: str, seconds: float = 1, **fields: Any) -> TaskRecord:
    """Return the record after the starts of steps by the newest run."""
    return after(record, *(start(record, step, **fields) for step in steps), seconds=seconds)


def find(record: TaskRecord, step: str, by: float = 90, send_by: float | None = None) -> StepStarted:
    """Return the start of a look-up by the newest run. Times are in seconds."""
    send = None if send_by is None else at(send_by)
    return replace(start(record, step, record.do(step).start_id or "", by=by), send_by=send)


def end(record: TaskRecord, step: str, kind: OutcomeKind = OutcomeKind.DONE, **fields: Any) -> StepEnded:
    """Return the outcome of the start of a step that is on record."""
    given = {
        "epoch": record.epoch,
        "direction": record.direction,
        "start_id": record.current(step).start_id or "none",
        "result": "{}" if kind is OutcomeKind.DONE else None,
        "error": None if kind is OutcomeKind.DONE else "it failed",
        **fields,
    }
    return StepEnded(step=step, kind=kind, **given)


def run(
    record: TaskRecord, step: str, kind: OutcomeKind = OutcomeKind.DONE, seconds: float = 1, **fields: Any
) -> TaskRecord:
    """Return the record after a step's start and its outcome."""
    record = after(record, start(record, step, by=seconds + 30), seconds=seconds)
    return after(record, end(record, step, kind, **fields), seconds=seconds)


def answer(record: TaskRecord, step: str, verdict: Verdict, result: str | None = None) -> Answered:
    """Return an operator's verdict in the epoch on record."""
    return Answered(epoch=record.epoch, step=step, verdict=verdict, result=result, **WHO)


def resubmit(record: TaskRecord, rebuild: str | None = None) -> Resubmitted:
    """Return a resubmission in the epoch on record."""
    return Resubmitted(epoch=record.epoch, rebuild=rebuild, **WHO)


def undo_request(record: TaskRecord) -> UndoRequested:
    """Return an operator's request of an undo in the epoch on record."""
    return UndoRequested(epoch=record.epoch, **WHO)


def cancel(by: Canceller = Canceller.OPERATOR) -> Cancelled:
    """Return a cancellation."""
    return Cancelled(by=by, **WHO)


SUSPEND = Suspended(reason="wait", by_operator=True)
RESUME = Resumed(by_operator=True)
NOT_DEPLOYED = Suspended(reason="w version 1 is not deployed")


def alerts(record: TaskRecord) -> list[object]:
    """Return the causes of the alerts of a change."""
    return [message.body.get("cause") for message in record.outbox if message.kind == "alert"]
