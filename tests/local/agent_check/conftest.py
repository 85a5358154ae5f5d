"""What the tests with planted faults share: one run of the kit for each wrong Agent."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.local.agent_check.planted import WrongAgent
from tests.local.agent_check.samples import Report


@pytest.fixture(scope="module")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[WrongAgent], Report]:
    """Give the kit's report on an Agent."""
    return cache(lambda agent: agent.check(tmp_path_factory.mktemp("agent")))
