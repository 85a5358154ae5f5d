"""The kit finds each planted fault, and says so in the line of the rule that is broken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.local.agent_check.faults import FAULTS, plant
from tests.local.agent_check.samples import check, lock_the_ledger

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    """Other lines may fail with it, where they meet the same fault."""
    agent = plant(FAULTS[name], tmp_path)
    run = f"{sys.executable} {agent}"
    chosen = ("--only", "a request", "--only", FAULTS[name].found_by)
    options = ("--effects", f"{run} effects", "--hold", lock_the_ledger(tmp_path), *chosen)
    report = check(tmp_path, f"exec {run}", *options)
    assert FAULTS[name].found_by in report.checks("FAILED"), report.text
    assert report.code == 1
