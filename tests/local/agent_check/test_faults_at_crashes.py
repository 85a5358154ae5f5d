"""The kit finds the faults that need a crash, a held up service or a lost broker to show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.local.agent_check.faults import AGENTS_AT_CRASHES
from tests.local.agent_check.planted import Planted, WrongAgent, faults_of, is_found
from tests.local.agent_check.samples import Report

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("agent", "fault"), faults_of(AGENTS_AT_CRASHES))
def test_planted_fault_is_found(
    agent: WrongAgent, fault: Planted, report_of: Callable[[WrongAgent], Report]
) -> None:
    """By the check that is named for it."""
    is_found(fault, report_of(agent))
