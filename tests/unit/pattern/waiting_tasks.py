"""Tasks that wait, and what becomes of them."""

from __future__ import annotations

from typing import Any

from functions.pattern.definition import Step, Workflow
from functions.pattern.events import Event
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Remedy
from functions.pattern.supervision import judge
from functions.pattern.transitions import apply
from functions.pattern.wait_events import EventReceived, HandedBack, WaitsEnded
from tests.fakes.interventions import done
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import after, claimed, pending, started, told
from tests.fakes.workflows import awaiting, step, timer, workflow

DAYS = 3 * 86_400
YES, NO = b'{"approved":true}', b'{"approved":false}'
APPROVE = StepName("approve")


def flow_of(*more: Step, remedy: Remedy = Remedy.HOLD, **event: Any) -> Workflow:
    """Pay, wait for an approval, and send; with more steps."""
    return workflow(
        step("pay", undo=True),
        awaiting("approve", "pay", **event),
        step("send", "approve"),
        *more,
        remedy=remedy,
    )


def waiting(of: Workflow | None = None) -> TaskRecord:
    """Wait for the event for three days, with nothing else to do."""
    return told(pending(of or flow_of()), claimed(), *done("pay"), started("approve", complete_by=DAYS))


def event_of(body: bytes = YES, step: str = "approve") -> EventReceived:
    """Let somebody approve."""
    return EventReceived(step=StepName(step), body=body, who="anna", start_by=after(30))


def handed_back(record: TaskRecord) -> TaskRecord:
    """Let the Scheduler of the first run let go."""
    return told(record, HandedBack(epoch=record.task.epoch, scheduler=claimed(record.task.epoch).scheduler))


def refusal_of(record: TaskRecord, event: Event, seconds: float = 0) -> RefusalReason:
    """Tell why an event is refused."""
    outcome = apply(record, event, after(seconds))
    assert isinstance(outcome, Refused)
    return outcome.reason


def after_the_end(record: TaskRecord, seconds: float = DAYS) -> TaskRecord:
    """Let the Supervisor find what is over."""
    now = after(seconds) + POLICY.skew
    event = judge(record, now, POLICY)
    assert isinstance(event, WaitsEnded)
    return told(record, event, now=now)


def napping(seconds: float = DAYS) -> TaskRecord:
    """Wait for a time, with nothing else to do."""
    flow = workflow(timer("nap"), step("go", "nap"), step("other"))
    return told(pending(flow), claimed(), *done("other"), started("nap", complete_by=seconds))
