"""Alerts as their webhook gets them: singly, or counted in a summary."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

#: A cause with its count, as a summary names it.
_CAUSE = re.compile(r"(.+?) \((\d+)\)(?:; |$)")
#: How causes begin that are, or may be, alerts of tasks.
_OF_TASKS = ("operator alert: ", "other causes")


@dataclass(frozen=True, slots=True)
class PostedAlert:
    """A posted alert about a task in an epoch, about something else, or a summary."""

    order: str | None
    epoch: int | None
    text: str
    #: The number of alerts of tasks that a summary counts, and the beginning of its minute.
    counted: int = 0
    minute: str = ""


def posted(body: Mapping[str, Any]) -> PostedAlert:
    """Return the alert that the webhook got in one request."""
    text = json.dumps(body)
    if body.get("event") != "more alerts":
        return PostedAlert(body.get("task"), body.get("epoch"), text)
    causes = {each[1]: int(each[2]) for each in _CAUSE.finditer(body["causes"])}
    counted = sum(count for cause, count in causes.items() if cause.startswith(_OF_TASKS))
    minute = datetime.fromisoformat(body["since"]).astimezone(UTC).isoformat()
    return PostedAlert(None, None, text, counted, minute)


def unnamed(alerts: Iterable[PostedAlert]) -> int:
    """Count the alerts of tasks in summaries; of a summary that was posted again, the largest count."""
    counts: dict[str, int] = {}
    for each in alerts:
        counts[each.minute] = max(counts.get(each.minute, 0), each.counted)
    return sum(counts.values())
