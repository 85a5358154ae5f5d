"""Instances of the application, of which none has called anything yet."""

from __future__ import annotations

import pytest

from functions.agents import lease
from tests.unit.agents.breaker.instances import Instances


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have shares of calls change hands in no time."""
    monkeypatch.setattr(lease, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(lease, "_HURRY", 0.01)


@pytest.fixture
def instances() -> Instances:
    """Give what the instances share."""
    return Instances()
