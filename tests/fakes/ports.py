"""Ports of which a test gives those that it needs; any other one fails at its first use."""

from __future__ import annotations

import uuid
from dataclasses import fields
from typing import Any

from functions.pattern.ports import Ports
from tests.fakes.clock import FakeClock


class _Missing:
    """Stands for a port that the test has not given."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, wanted: str) -> Any:
        raise AssertionError(f"the test uses the port '{self._name}' ({wanted}), but gives none")


def fake_ports(**given: Any) -> Ports:
    """Make ports out of those that are given, a clock of its own and ids at random."""
    missing: dict[str, Any] = {field.name: _Missing(field.name) for field in fields(Ports)}
    standing: dict[str, Any] = {"clock": FakeClock(), "new_id": lambda: uuid.uuid4().hex}
    return Ports(**{**missing, **standing, **given})
