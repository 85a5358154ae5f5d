"""Alerts as their webhook gets them: of one task each, or of a group."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

#: A task of a group of alerts.
_NAMED = re.compile(r"(.*) \(epoch (\d+)\)")
#: The text of what only its group's count tells of.
UNNAMED = "others of a group"


@dataclass(frozen=True, slots=True)
class PostedAlert:
    """One alert: about a task in an epoch, or, without a task, about something else (a dead letter)."""

    order: str | None
    epoch: int | None
    text: str
    #: Of what only a group tells of: how many they are, and the group, which is the same when posted again.
    others: int = 0
    group: tuple[str, ...] = ()


def posted(body: Mapping[str, Any]) -> list[PostedAlert]:
    """Return the alerts that the webhook got in one request."""
    text = json.dumps(body)
    if body.get("event") == "operator alerts":
        return grouped(body["named"].split(", "), body["tasks"], text, group_of(body))
    return [PostedAlert(body.get("task"), body.get("epoch"), text)]


def group_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Tell a group from others: its cause, and since when it was gathered."""
    since = datetime.fromisoformat(body["since"]).astimezone(UTC)
    return body["workflow"], body["state"], body["reason"], since.isoformat()


def unnamed(alerts: Iterable[PostedAlert]) -> int:
    """Count the alerts that only groups tell of; of one that was posted again, the largest count."""
    counts = Counter[tuple[str, ...]]()
    for each in alerts:
        counts[each.group] = max(counts[each.group], each.others)
    return counts.total()


def grouped(named: Sequence[str], tasks: int, text: str, group: tuple[str, ...]) -> list[PostedAlert]:
    """Return the alerts of a group: of so many tasks, of which some are named."""
    matches = [_NAMED.fullmatch(each) for each in named]
    alerts = [PostedAlert(each[1], int(each[2]), text) for each in matches if each]
    return [*alerts, PostedAlert(None, None, UNNAMED, tasks - len(alerts), group)]
