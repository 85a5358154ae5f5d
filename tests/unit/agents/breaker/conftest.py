"""Instances of the application, of which none has called anything yet."""

from __future__ import annotations

import pytest

from tests.unit.agents.breaker.instances import Instances


@pytest.fixture
def instances() -> Instances:
    """Give what the instances share."""
    return Instances()
