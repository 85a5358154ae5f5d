"""A fresh bench for each test."""

from __future__ import annotations

import pytest

from tests.unit.supervisor.bench import Bench


@pytest.fixture
def bench() -> Bench:
    """Make a Supervisor that has not swept yet."""
    return Bench()
