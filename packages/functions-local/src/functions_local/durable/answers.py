"""Responses of the management API: URLs, the client binding with them, status and history of an instance.

Names and forms are the extension's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from functions_local.durable.event_json import to_json
from functions_local.durable.events import EventType, RuntimeStatus
from functions_local.durable.store import InstanceRow

#: Prefix of the API that people and check-status answers use.
PUBLIC_PREFIX = "/runtime/webhooks/durabletask"
#: Prefix of the same API that the SDK's client uses.
RPC_PREFIX = "/durabletask"
#: The SDK replaces this text with an instance id.
_PLACEHOLDER = "INSTANCEID"

_UNSEEN = {EventType.OrchestratorStarted, EventType.OrchestratorCompleted}
_INTERNAL_FIELDS = {
    "EventId",
    "IsPlayed",
    "TaskScheduledId",
    "TimerId",
    "Version",
    "Tags",
    "OrchestrationInstance",
}


class ManagementUrls:
    """URLs for one origin, like http://127.0.0.1:7071, and one task hub."""

    def __init__(self, origin: str, hub: str) -> None:
        self._origin = origin.rstrip("/")
        self._hub = hub
        self._base = f"{self._origin}{PUBLIC_PREFIX}"
        self._query = f"taskHub={hub}&connection=Storage&code=local"

    def of_instance(self, instance: str) -> dict[str, str]:
        """Return the URLs that manage an instance."""
        base, query = f"{self._base}/instances/{quote(instance, safe='')}", self._query
        return {
            "id": instance,
            "statusQueryGetUri": f"{base}?{query}",
            "sendEventPostUri": f"{base}/raiseEvent/{{eventName}}?{query}",
            "terminatePostUri": f"{base}/terminate?reason={{text}}&{query}",
            "rewindPostUri": f"{base}/rewind?reason={{text}}&{query}",
            "purgeHistoryDeleteUri": f"{base}?{query}",
            "restartPostUri": f"{base}/restart?{query}",
            "suspendPostUri": f"{base}/suspend?reason={{text}}&{query}",
            "resumePostUri": f"{base}/resume?reason={{text}}&{query}",
        }

    def client_binding(self) -> str:
        """Return the JSON of a durableClient binding, which the worker passes to a function."""
        create = f"{self._base}/orchestrators/{{functionName}}[/{{instanceId}}]?"
        wait = "timeout={timeoutInSeconds}&pollingInterval={intervalInSeconds}&"
        binding = {
            "taskHubName": self._hub,
            "connectionName": None,
            "creationUrls": {
                "createNewInstancePostUri": f"{create}code=local",
                "createAndWaitOnNewInstancePostUri": f"{create}{wait}code=local",
            },
            "managementUrls": self.of_instance(_PLACEHOLDER),
            "baseUrl": self._base,
            "requiredQueryStringParameters": "code=local",
            "rpcBaseUrl": f"{self._origin}{RPC_PREFIX}/",
            "httpBaseUrl": None,
        }
        return to_json(binding)


def parsed(text: str | None) -> Any:
    """Parse JSON text; return other text (an error, a reason) unchanged."""
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
        "createdTime": _without_fraction(row.created),
        "lastUpdatedTime": _without_fraction(row.updated),
    }


def history_events(
    bodies: Iterable[dict[str, Any]], *, show_input: bool, show_output: bool
) -> list[dict[str, Any]]:
    """Return the history for display: an activity is one event, its completion, with both its times.

    An activity that has not completed yet is the event that scheduled it.
    """
    bodies = list(bodies)
    completed = {body["TaskScheduledId"] for body in bodies if "TaskScheduledId" in body}
    scheduled: dict[int, dict[str, Any]] = {}
    shown = []
    for body in bodies:
        kind = EventType(body["EventType"])
        if kind is EventType.TaskScheduled:
            scheduled[body["EventId"]] = body
            if body["EventId"] in completed:
                continue
        if kind not in _UNSEEN:
            shown.append(_visible(kind, body, scheduled, show_input=show_input, show_output=show_output))
    return shown


def _visible(
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
            if cause["Input"] is not None:
                seen["Input"] = cause["Input"]
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


def _without_fraction(text: str) -> str:
    return f"{text[:19]}Z"
