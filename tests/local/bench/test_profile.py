"""A process that can't be sampled is an error with its reason."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from local.bench.profile import flame_graph
from local.platform import PlatformError


async def test_a_process_that_is_gone_is_an_error_with_its_reason(tmp_path: Path) -> None:
    """The error is raised before the block."""
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    with pytest.raises(PlatformError, match=r"^py-spy did not sample the host: ") as refused:
        async with flame_graph(gone.pid, tmp_path / "graph.svg"):
            pytest.fail("the block was entered")
    assert re.fullmatch(r"[^\n]+", str(refused.value))
