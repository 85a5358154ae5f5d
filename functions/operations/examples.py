"""Answers to operators, as the API pages show them."""

from __future__ import annotations

from typing import Any

from functions.operations.overview.last_hour import VersionLine, WorkflowLine

_ID = "order-1"
_SUBMITTED = "2026-11-21T12:00:00Z"
_STARTED = "2026-11-21T12:00:01Z"
_FAILED = "2026-11-21T12:00:02Z"
_COMPLETE_BY = "2026-11-21T12:00:11Z"
_ERROR = "payment answered 402"

_LINE = {
    "id": _ID,
    "workflow": "orders",
    "workflow_version": 1,
    "state": "Error",
    "direction": "do",
    "epoch": 1,
    "failure_count": 0,
    "locked_by": None,
    "submitted_at": _SUBMITTED,
    "updated_at": _FAILED,
    "due_at": None,
    "finished_at": _FAILED,
    "last_error": _ERROR,
    "parked": False,
    "parked_by_operator": False,
}

_STEP = {
    "name": "payment",
    "state": "Failed",
    "agent": "payment",
    "queue": None,
    "undo": True,
    "idempotent": True,
    "via": "activity",
    "role": None,
    "told_by": None,
    "told_why": None,
    "epoch": 1,
    "attempts": None,
    "noted": None,
    "complete_by": _COMPLETE_BY,
    "started_at": _STARTED,
    "finished_at": _FAILED,
    "error": _ERROR,
    "item": None,
}

_SUBMISSION = {
    "event": "submitted",
    "at": _SUBMITTED,
    "epoch": 1,
    "who": "function-key",
    "reason": None,
    "last_error": None,
    "state": "Pending",
    "direction": "do",
    "locked_by": None,
    "steps": [],
}

TASK_PAGE: dict[str, Any] = {
    "tasks": [_LINE],
    "cursor": None,
    "looked_to": None,
    "more": False,
    "unreadable": [],
}

_ERROR_CLASS = f"payment: {_ERROR}"

ERROR_GROUPS: dict[str, Any] = {
    "groups": [
        {
            "workflow": "orders",
            "version": 1,
            "step": "payment",
            "error": _ERROR_CLASS,
            "count": 214,
            "first_at": _SUBMITTED,
            "last_at": _FAILED,
            "example": _ID,
            "filter": {
                "state": "Error",
                "workflow": "orders",
                "version": 1,
                "step": "payment",
                "error": _ERROR_CLASS,
            },
        }
    ],
    "looked_to": None,
    "unreadable": [],
}

TASK: dict[str, Any] = {
    **_LINE,
    "birth": "3f9a0c27",
    "submitter": "function-key",
    "reply_to": "notices-demo",
    "correlation_id": None,
    "on_failure": "hold",
    "on_exhausted": "hold",
    "complete_by": _COMPLETE_BY,
    "not_before": None,
    "steps": [_STEP],
    "parent": None,
    "children": {},
    "needs": {"payment": []},
    "decision": None,
    "history": [_SUBMISSION],
    "notices": [
        {"kind": "received", "epoch": 1, "sent_at": _SUBMITTED, "cause": None, "step": None},
        {"kind": "failed", "epoch": 1, "sent_at": _FAILED, "cause": None, "step": None},
    ],
    "lost_messages": [],
    "rejected": [],
    "prospects": {
        "by_itself": None,
        "resubmit": {"runs": ["payment"], "undoes": [], "waits_until": None},
        "undo": {"runs": [], "undoes": ["payment"], "waits_until": None},
        "cancel": {"runs": [], "undoes": ["payment"], "waits_until": None},
        "park": False,
        "unpark": None,
        "skips": [
            {"step": "payment", "follows": {"runs": [], "undoes": [], "waits_until": None}},
        ],
        "events": [],
        "question": None,
        "answers": [],
    },
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "trace_url": None,
}

ACTION_TAKEN: dict[str, Any] = {"id": _ID, "epoch": 2, "state": "Pending", "direction": "do"}

BULK_COUNT: dict[str, Any] = {"count": 214, "more": False, "exact": True, "at": _COMPLETE_BY}

BULK_PAGE: dict[str, Any] = {
    "done": [ACTION_TAKEN],
    "refused": [{"id": "order-2", "reason": "The task is not in Error, and takes this only there."}],
    "passed_over": 0,
    "unreadable": [],
    "cursor": None,
}

_NONE = {"count": 0, "more": False}
_WAITING = {"count": 1, "more": False, "oldest_at": _STARTED, "scheduled": 0}
_DEAD = {"count": 0, "more": False, "oldest_at": None, "scheduled": 0}

OVERVIEW: dict[str, Any] = {
    "at": _FAILED,
    "under_way": {"count": 12, "more": False},
    "overdue": _NONE,
    "parked": _NONE,
    "in_error": {"count": 1, "more": False},
    "supervisor": {
        "instance": "5f0c1d4e",
        "started_at": _STARTED,
        "finished_at": _FAILED,
        "found": 1,
        "overdue": 1,
        "recovered": 1,
    },
    "housekeeping": {
        "started_at": _STARTED,
        "finished_at": _FAILED,
        "tasks": 240,
        "left": 0,
        "behind_seconds": 0.0,
    },
    "unreadable": 0,
    "breakers": [
        {
            "service": "payment",
            "state": "open",
            "since": _SUBMITTED,
            "failures": 5,
            "probe_at": "2026-11-21T12:00:15Z",
            "last_error": "payment answered 503",
            "at_once": 10,
            "ramp": None,
            "limit": 10,
            "in_flight": 0,
            "wanted": 4,
        }
    ],
    "silent_agents": [{"agent": "payment", "since": _SUBMITTED, "found_at": _SUBMITTED, "tasks": 40}],
    "crowds": [
        {
            "behind": "Agent payment",
            "cause": "no reply",
            "since": _SUBMITTED,
            "tasks": 40,
            "found_at": _SUBMITTED,
            "until": _SUBMITTED,
            "blocked": True,
            "turns": 5,
        }
    ],
    "intake": {
        "at": _SUBMITTED,
        "oldest_seconds": 2,
        "messages": 30,
        "not_picked_up": 0,
        "retry_after": 0,
    },
    "last_hour": [
        {
            "at": "2026-11-21T11:59:00Z",
            "accepted": 240,
            "processed": 236,
            "compensated": 3,
            "error": 1,
            "recovered": 2,
        }
    ],
    "workflows": [WorkflowLine(workflow="orders", under_way=12, in_error=1).model_dump()],
    "versions": [
        VersionLine(workflow="orders", version=1, deployed=True, under_way=12, in_error=1).model_dump()
    ],
    "queues": [{"queue": "submissions", "waiting": _WAITING, "dead": _DEAD}],
    "hub": {
        "hub": "order-events",
        "at": _FAILED,
        "waiting": 1200,
        "partitions": 32,
        "behind": 4,
        "retention_used": 0.001,
    },
}

FIGURES: dict[str, Any] = {
    "table_storage": {"transactions": 120, "operations": 400, "reads": 90},
    "service_bus": {"messages": 60, "batches": 12},
}
