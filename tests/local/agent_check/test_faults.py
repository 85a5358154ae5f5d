"""The kit finds each planted fault, says so in the line of the rule that is broken, and lets others pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.local.agent_check.faults import FAULTS, RIGHT, Planted, plant
from tests.local.agent_check.samples import Report, check, lock_the_ledger

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    """Other lines may fail with it, where they meet the same fault."""
    report = _check(FAULTS[name], tmp_path)
    assert FAULTS[name].found_by in report.checks("FAILED"), report.text
    assert FAULTS[name].says in report.text
    assert report.code == 1


@pytest.mark.parametrize("name", RIGHT)
def test_slow_agent_is_passed(name: str, tmp_path: Path) -> None:
    """As long as it is at work, it is waited for."""
    report = _check(RIGHT[name], tmp_path)
    assert RIGHT[name].found_by in report.checks("passed"), report.text
    assert report.code == 0


def _check(planted: Planted, folder: Path) -> Report:
    run = f"{sys.executable} {plant(planted, folder)}"
    chosen = ("--only", "a request", "--only", planted.found_by, "--processes", str(planted.processes))
    options = ("--effects", f"{run} effects", "--hold", lock_the_ledger(folder), *chosen)
    return check(folder, f"exec {run}", *options)
