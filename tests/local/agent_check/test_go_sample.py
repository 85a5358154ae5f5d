"""The kit passes for the sample in Go."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.local.agent_check.samples import check, go_sample, keeps_every_rule

# The client is downloaded and compiled when it runs for the first time.
pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]


def test_go_keeps_every_rule(tmp_path: Path) -> None:
    """Its ledger is a file, whose lock holds it up."""
    agent = " ".join(go_sample(tmp_path))
    hold = f'exec {sys.executable} -c "{_LOCK_FILE}"'
    keeps_every_rule(check(tmp_path, f"exec {agent}", "--effects", f"{agent} effects", "--hold", hold))


_LOCK_FILE = (
    "import fcntl, time; file = open('payments.log', 'a'); fcntl.flock(file, fcntl.LOCK_EX);"
    " print('held', flush=True); time.sleep(600)"
)
