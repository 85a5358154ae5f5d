"""Ports for a test, which sets those that it needs; any other fails at its first use."""

from __future__ import annotations

import uuid
from dataclasses import fields
from typing import Any

from functions.pattern.ports import Ports
from tests.fakes.clock import FakeClock
from tests.fakes.minute_counts import MemoryMinuteCounts
from tests.fakes.times import MemoryTimes


class _Missing:
    """Stands in for a port that the test has not set."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, wanted: str) -> Any:
        raise AssertionError(f"the test uses the port '{self._name}' ({wanted}), but has not set it")


def fake_ports(**given: Any) -> Ports:
    """Create ports from those given, with a separate clock, times and counts of tasks, and random ids."""
    missing: dict[str, Any] = {field.name: _Missing(field.name) for field in fields(Ports)}
    standing: dict[str, Any] = {
        "clock": FakeClock(),
        "new_id": lambda: uuid.uuid4().hex,
        "times": MemoryTimes(),
        "minute_counts": MemoryMinuteCounts(),
    }
    return Ports(**{**missing, **standing, **given})
