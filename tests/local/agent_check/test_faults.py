"""The kit finds each planted fault, also those that show only at a crash, a hold or a lost broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.local.agent_check.faults import AGENTS
from tests.local.agent_check.samples import Planted, Report, WrongAgent, check_changed, faults_of, is_found

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


@pytest.fixture(scope="module")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[WrongAgent], Report]:
    """Return the kit's report on an Agent."""
    return cache(lambda agent: agent.check(tmp_path_factory.mktemp("agent")))


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
