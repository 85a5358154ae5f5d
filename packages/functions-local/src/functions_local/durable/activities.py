"""Runs one activity and puts its result into the inbox of the orchestration that called it.

At least once: one transaction deletes the activity's row and records the result, so an activity that a kill
interrupts runs again.
"""

from __future__ import annotations

import logging

from functions_local.durable.contract import (
    DurableFunction,
    FunctionTable,
    Invoke,
    Raised,
    Returned,
)
from functions_local.durable.dispatcher import TaskHub
from functions_local.durable.event_json import to_json
from functions_local.durable.events import TaskCompleted, TaskFailed
from functions_local.durable.refusals import PayloadTooLargeError, check_size
from functions_local.durable.store import Changes, PendingActivity

_log = logging.getLogger(__name__)


class ActivityRunner:
    """Runs activities for the dispatcher."""

    def __init__(self, hub: TaskHub, functions: FunctionTable, invoke: Invoke) -> None:
        self._hub = hub
        self._functions = functions
        self._invoke = invoke

    async def run(self, activity: PendingActivity) -> None:
        """Run an activity and commit its result. A result for a finished generation is dropped."""
        result = await self._result(activity)
        changes = Changes().take_activity(activity.number)
        messages = []
        if self._hub.instances.get(activity.instance, activity.execution) is not None:
            messages.append(self._hub.dispatcher.message(activity.instance, activity.execution, result))
            changes.add_message(messages[0])
        await self._hub.database.commit(changes.statements, lambda: self._hub.dispatcher.deliver(messages))

    async def _result(self, activity: PendingActivity) -> TaskCompleted | TaskFailed:
        function = self._functions.get(activity.name)
        if function is None:
            reason = (
                f"The function '{activity.name}' doesn't exist, is disabled, or is not an activity function"
            )
            _log.error("Orchestration %s calls an unknown activity. %s", activity.instance, reason)
            return TaskFailed(task_scheduled_id=activity.task, reason=reason, details=None)
        try:
            outcome = await self._call(function, activity)
            if isinstance(outcome, Returned):
                check_size(outcome.json, f"The result of activity '{activity.name}' ({activity.instance})")
        except PayloadTooLargeError as error:
            outcome = Raised(str(error), "")
        return _event_of(outcome, activity)

    async def _call(self, function: DurableFunction, activity: PendingActivity) -> Returned | Raised:
        payload = "null" if activity.input is None else activity.input
        self._hub.figures["activities_run"] += 1
        return await self._invoke(function.function, function.parameter, payload)


def _event_of(outcome: Returned | Raised, activity: PendingActivity) -> TaskCompleted | TaskFailed:
    """Make the event as the extension does, with its two spaces and its .NET exception."""
    if isinstance(outcome, Returned):
        result = None if outcome.json == "null" else outcome.json
        return TaskCompleted(task_scheduled_id=activity.task, result=result)
    details = {
        "$type": "System.Exception, System.Private.CoreLib",
        "ClassName": "System.Exception",
        "Message": f" {outcome.message}",
        "RemoteStackTraceString": outcome.stack,
    }
    return TaskFailed(
        task_scheduled_id=activity.task,
        reason=f"Activity function '{activity.name}' failed:  {outcome.message}",
        details=to_json(details),
    )
