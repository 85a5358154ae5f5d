"""The whole application as it is deployed, connected to nothing."""

from __future__ import annotations

import pytest

from functions.wiring import Wiring
from tests.fakes.application import wired


@pytest.fixture(scope="session")
def wiring() -> Wiring:
    """Wire every workflow that is registered."""
    return wired()
