"""The application with sample orders and parcels."""

from __future__ import annotations

import pytest

from tests.unit.api.scene import Api


@pytest.fixture
def api() -> Api:
    """Return an application without orders."""
    return Api()
