"""The effects of a verdict on an instance: its status, new events in history, activities and timers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from functions_local.durable.decisions import (
    Completed,
    Decision,
    Failed,
    Outcome,
    Restarted,
    RunActivity,
    SetTimer,
    Terminated,
    Verdict,
)
from functions_local.durable.dispatcher import Dispatcher
from functions_local.durable.event_json import to_json
from functions_local.durable.events import (
    Event,
    ExecutionCompleted,
    OrchestratorCompleted,
    RuntimeStatus,
    TaskScheduled,
    TimerCreated,
    TimerFired,
)
from functions_local.durable.instances import LiveInstance
from functions_local.durable.refusals import PayloadTooLargeError, check_size
from functions_local.durable.store import InstanceMessage, PendingActivity
from functions_local.times import to_text


@dataclass(slots=True)
class Conclusion:
    """The result of one episode."""

    status: RuntimeStatus
    #: JSON text of the orchestrator's return value, or plain text of an error or a reason.
    output: str | None = None
    #: The events that follow the messages in history.
    events: list[Event] = field(default_factory=list)
    activities: list[PendingActivity] = field(default_factory=list)
    timers: list[InstanceMessage] = field(default_factory=list)


def conclude(instance: LiveInstance, verdict: Verdict, dispatcher: Dispatcher) -> Conclusion:
    """Derive the conclusion from a verdict; payloads that are too large make it a failure."""
    try:
        return _conclude(instance, verdict, dispatcher)
    except PayloadTooLargeError as error:
        return _conclude(instance, Verdict(Failed(str(error))), dispatcher)


def _conclude(instance: LiveInstance, verdict: Verdict, dispatcher: Dispatcher) -> Conclusion:
    if verdict.outcome is None:
        conclusion = Conclusion(RuntimeStatus.Suspended if verdict.suspended else RuntimeStatus.Running)
    else:
        conclusion = _end(instance, verdict.outcome)
    for task, decision in verdict.decisions.items():
        _carry_out(conclusion, instance, task, decision, dispatcher)
    if conclusion.status.is_terminal:
        # Only cancelled timers remain: they are in history, but need not fire.
        conclusion.timers.clear()
        last = max(verdict.decisions, default=-1) + 1
        status = conclusion.status.value
        completed = ExecutionCompleted(event_id=last, orchestration_status=status, result=conclusion.output)
        conclusion.events.append(completed)
    conclusion.events.append(OrchestratorCompleted())
    return conclusion


def _end(instance: LiveInstance, outcome: Outcome) -> Conclusion:
    match outcome:
        case Completed(output):
            text = None if output is None else to_json(output)
            check_size(text, f"The output of orchestration {instance.id}")
            return Conclusion(RuntimeStatus.Completed, text)
        case Failed(error, raised):
            text = f"Orchestrator function '{instance.name}' failed: {error}" if raised else error
            return Conclusion(RuntimeStatus.Failed, text)
        case Terminated(reason):
            return Conclusion(RuntimeStatus.Terminated, reason)
        case Restarted(next_input):
            check_size(next_input, f"The next input of orchestration {instance.id}")
            return Conclusion(RuntimeStatus.ContinuedAsNew)
        case _:
            assert_never(outcome)


def _carry_out(
    conclusion: Conclusion, instance: LiveInstance, task: int, decision: Decision, dispatcher: Dispatcher
) -> None:
    match decision:
        case RunActivity(name, input_text):
            check_size(input_text, f"The input of activity '{name}' ({instance.id})")
            kept = input_text if dispatcher.stores_inputs else None
            conclusion.events.append(TaskScheduled(event_id=task, name=name, input=kept))
            conclusion.activities.append(dispatcher.activity(instance, task, name, input_text))
        case SetTimer(moment):
            fire_at = to_text(moment)
            conclusion.events.append(TimerCreated(event_id=task, fire_at=fire_at))
            fired = TimerFired(timer_id=task, fire_at=fire_at)
            timer = dispatcher.message(instance.id, instance.execution, fired, moment.timestamp())
            conclusion.timers.append(timer)
        case _:
            assert_never(decision)
