"""What the management API tells of an instance: its status and its history, worded as the extension does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from functions_local.durable.events import EventType, RuntimeStatus
from functions_local.durable.store import InstanceRow

_DECISIONS = {EventType.TaskScheduled, EventType.TimerCreated}
_UNSEEN = {EventType.OrchestratorStarted, EventType.OrchestratorCompleted, EventType.TaskScheduled}
_INTERNAL_FIELDS = {
    "EventId",
    "IsPlayed",
    "TaskScheduledId",
    "TimerId",
    "Version",
    "Tags",
    "OrchestrationInstance",
}


def parsed(text: str | None) -> Any:
    """Read JSON text; text that is none (an error, a reason) stands for itself."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def status_payload(row: InstanceRow, *, show_input: bool) -> dict[str, Any]:
    """Return the status of an instance. Times are UTC in whole seconds."""
    return {
        "name": row.name,
        "instanceId": row.id,
        "runtimeStatus": row.status.name,
        "input": parsed(row.input) if show_input else None,
        "customStatus": parsed(row.custom_status),
        "output": parsed(row.output),
        "createdTime": _whole_seconds(row.created),
        "lastUpdatedTime": _whole_seconds(row.updated),
    }


def history_events(
    bodies: Iterable[dict[str, Any]], *, show_input: bool, show_output: bool
) -> list[dict[str, Any]]:
    """Return history as people read it: an activity is one event, its completion, with both its times."""
    scheduled: dict[int, dict[str, Any]] = {}
    shown = []
    for body in bodies:
        kind = EventType(body["EventType"])
        if kind in _DECISIONS:
            scheduled[body["EventId"]] = body
        if kind not in _UNSEEN:
            shown.append(_shown(kind, body, scheduled, show_input=show_input, show_output=show_output))
    return shown


def _shown(
    kind: EventType,
    body: dict[str, Any],
    scheduled: dict[int, dict[str, Any]],
    *,
    show_input: bool,
    show_output: bool,
) -> dict[str, Any]:
    seen = {key: value for key, value in body.items() if key not in _INTERNAL_FIELDS}
    seen["EventType"] = kind.name
    match kind:
        case EventType.TaskCompleted | EventType.TaskFailed:
            cause = scheduled[body["TaskScheduledId"]]
            seen |= {"ScheduledTime": cause["Timestamp"], "FunctionName": cause["Name"]}
        case EventType.ExecutionStarted:
            seen["FunctionName"] = seen.pop("Name")
        case EventType.ExecutionCompleted:
            seen["OrchestrationStatus"] = RuntimeStatus(body["OrchestrationStatus"]).name
        case _:
            pass
    _show_payload(seen, "Input", wanted=show_input)
    _show_payload(seen, "Result", wanted=show_output)
    return seen


def _show_payload(seen: dict[str, Any], field: str, *, wanted: bool) -> None:
    if field in seen:
        text = seen.pop(field)
        if wanted:
            seen[field] = parsed(text)


def _whole_seconds(text: str) -> str:
    return f"{text[:19]}Z"
