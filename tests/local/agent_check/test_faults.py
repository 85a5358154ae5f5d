"""The kit finds each planted fault, and says so in the line of the rule that is broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.agent_check.faults import AGENTS
from tests.local.agent_check.planted import Planted, WrongAgent, check_changed, faults_of, is_found
from tests.local.agent_check.samples import Report

_AT_ONCE = "pays back twice when asked twice at once"
_SECOND_IS_LATE = """\
        return
    try:
        os.mkdir("first")
    except FileExistsError:
        time.sleep(8)
    while True:
"""
pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("agent", "fault"), faults_of(AGENTS))
def test_planted_fault_is_found(
    agent: WrongAgent, fault: Planted, report_of: Callable[[WrongAgent], Report]
) -> None:
    """By the check that is named for it."""
    is_found(fault, report_of(agent))


def test_processes_that_start_late_are_waited_for(tmp_path: Path) -> None:
    """Otherwise, what two of them do at once would not be seen."""
    fault = next(agent.faults[_AT_ONCE] for agent in AGENTS if _AT_ONCE in agent.faults)
    late = ("        return\n    while True:\n", _SECOND_IS_LATE)
    is_found(fault, check_changed([*fault.changes, late], [fault.found_by], tmp_path, processes=2))
