"""A part's program starts as if nothing had stood before it, and only when the platform says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from local.platform import ROOT, PartName
from local.platform.folder import held
from local.platform.parts import Part, Readiness
from local.platform.process import PartProcess
from local.platform.watchdog import Watchdog

pytestmark = pytest.mark.process

_OURS, _CALLERS = "AzureWebJobs.supervisor.Disabled", "AzureWebJobs.full-sweep.Disabled"


async def _output(folder: Path, *command: str, **environment: str) -> list[str]:
    part = Part(PartName.HOST, command, Readiness(""), environment)
    async with Watchdog.running() as watchdog, held(folder) as lock:
        process = await PartProcess.start(part, watchdog, lock)
        assert await process.wait() == 0
        return list(process.last_lines)


async def test_a_part_gets_each_setting_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell on the way would lose the switches of functions: their names have dots."""
    monkeypatch.setenv(_CALLERS, "the environment's")
    shown = f"import os; print(*map(os.environ.get, {(_OURS, _CALLERS)!r}), sep='; ')"
    lines = await _output(tmp_path, sys.executable, "-c", shown, **{_OURS: "true"})
    assert lines == ["true; the environment's"]


async def test_a_part_ends_at_a_pipe_that_nobody_reads(tmp_path: Path) -> None:
    """Quietly, as it would without Python before it, which has its children ignore that signal."""
    assert await _output(tmp_path, "/bin/sh", "-c", "yes | head -1") == ["y"]


def test_nothing_starts_when_the_platform_is_gone_before_it_says_so(tmp_path: Path) -> None:
    """The watchdog may not know the process yet."""
    started = tmp_path / "started"
    command = [sys.executable, str(ROOT / "local" / "platform" / "gate.py"), "/usr/bin/touch", str(started)]
    for said, starts in (b"", False), (b"go\n", True):
        subprocess.run(command, input=said, check=True)
        assert started.exists() is starts
