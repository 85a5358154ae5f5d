"""The kit passes for the sample in JavaScript."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.agent_check.samples import (
    GIVES_UP_A_BUSY_LEDGER,
    check,
    javascript_sample,
    keeps_every_rule,
    lock_the_ledger,
)

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]


def test_javascript_keeps_every_rule(tmp_path: Path) -> None:
    """With Microsoft's client, and a SQLite for Node."""
    sample = " ".join(javascript_sample())
    options = ("--effects", f"{sample} effects", "--hold", lock_the_ledger(tmp_path))
    keeps_every_rule(check(tmp_path, f"exec {sample}", *options), GIVES_UP_A_BUSY_LEDGER)
