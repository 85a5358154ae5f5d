"""Alerts as their webhook gets them: of one task each, or of a group."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: A task of a group of alerts.
_NAMED = re.compile(r"(.*) \(epoch (\d+)\)")
#: The text of an alert that only its group's count tells of.
UNNAMED = "one of a group"


@dataclass(frozen=True, slots=True)
class PostedAlert:
    """One alert: about a task in an epoch, or, without a task, about something else (a dead letter)."""

    order: str | None
    epoch: int | None
    text: str


def posted(body: Mapping[str, Any]) -> list[PostedAlert]:
    """Return the alerts that the webhook got in one request."""
    text = json.dumps(body)
    if body.get("event") == "operator alerts":
        return grouped(body["named"].split(", "), body["tasks"], text)
    return [PostedAlert(body.get("task"), body.get("epoch"), text)]


def grouped(named: Sequence[str], tasks: int, text: str) -> list[PostedAlert]:
    """Return the alerts of a group: of so many tasks, of which some are named."""
    matches = [_NAMED.fullmatch(each) for each in named]
    alerts = [PostedAlert(each[1], int(each[2]), text) for each in matches if each]
    return alerts + [PostedAlert(None, None, UNNAMED)] * (tasks - len(alerts))
