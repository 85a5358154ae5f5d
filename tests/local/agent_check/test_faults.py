"""The kit finds each planted fault, and says so in the line of the rule that is broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.local.agent_check.faults import AGENTS
from tests.local.agent_check.planted import Planted, WrongAgent, faults_of, is_found
from tests.local.agent_check.samples import Report

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]


@pytest.mark.parametrize(("agent", "fault"), faults_of(AGENTS))
def test_planted_fault_is_found(
    agent: WrongAgent, fault: Planted, report_of: Callable[[WrongAgent], Report]
) -> None:
    """By the check that is named for it."""
    is_found(fault, report_of(agent))
