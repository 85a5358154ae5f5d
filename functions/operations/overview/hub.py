"""How far the event hub is taken, as its timer left it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ValidationError


class HubLine(BaseModel):
    """Events of `hub` that wait, as of `at`, in `behind` of its partitions.

    `retention_used` is the part of the hub's retention for which the oldest of them waits: at 1 it is lost.
    """

    hub: str
    at: datetime
    waiting: int
    partitions: int
    behind: int
    retention_used: float


def hub_line(figures: Mapping[str, Any] | None) -> HubLine | None:
    """Read the timer's figures; None before its first look, without a hub, and for what can't be read."""
    try:
        return None if figures is None else HubLine.model_validate(figures)
    except ValidationError:
        return None
