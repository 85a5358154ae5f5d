"""The locks that `infra/queues.json` declares leave each step's request time for a crash."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from local import commands
from local.long_locks import declared_locks, long_locks
from local.platform import ROOT, PlatformOptions

_QUEUES = ROOT / "infra" / "queues.json"


def test_each_step_behind_a_queue_has_twice_its_lock() -> None:
    """So that a request whose Agent died comes again, and is done, before its complete-by."""
    assert declared_locks(_QUEUES)["agent-payment-requests"] == 15
    assert long_locks(_QUEUES) == []


@pytest.fixture
def long_queues(tmp_path: Path) -> Path:
    """Write queues with locks of a minute."""
    text = _QUEUES.read_text(encoding="utf-8").replace("PT15S", "PT1M")
    file = tmp_path / "queues.json"
    file.write_text(text, encoding="utf-8")
    return file


def test_longer_lock_is_named_with_both_figures(long_queues: Path) -> None:
    """And which step has too little time."""
    [warning] = long_locks(long_queues)
    assert "step 'payment': complete_within is 60 seconds, less than twice the lock" in warning
    assert "'agent-payment-requests' (60 seconds)" in warning


class _Platform:
    """Is interrupted at once."""

    async def run_until_failure(self) -> None:
        """Return."""


async def test_up_warns(
    long_queues: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the ready line is."""

    async def started(_: PlatformOptions, work: Callable[[Any], Awaitable[None]]) -> int:
        await work(_Platform())
        return 0

    monkeypatch.setattr(commands, "_on_platform", started)
    assert await commands.up(PlatformOptions(queues=long_queues)) == 0
    assert "warning: workflow 'orders': step 'payment'" in capsys.readouterr().out


def test_queue_without_a_lock_of_its_own_has_no_warning(tmp_path: Path) -> None:
    """Its broker decides."""
    file = tmp_path / "queues.json"
    file.write_text(json.dumps({"queues": [{"name": "agent-payment-requests", "properties": {}}]}))
    assert long_locks(file) == []
