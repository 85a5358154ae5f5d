"""A bench for each test."""

from __future__ import annotations

import pytest

from tests.unit.ingestion.bench import Bench


@pytest.fixture
def bench() -> Bench:
    """Make a function that has taken nothing."""
    return Bench()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon on a service that fails: only where one does, since a busy machine is slow too."""
    monkeypatch.setattr("functions.ingestion.batch._PATIENCE", 0.05)
