"""A flame graph says what it shows, and a process that can't be sampled is an error with its reason."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from local.bench.flame_graph import flame_graph, readable
from local.platform import ROOT, PlatformError


def test_the_title_says_what_it_is() -> None:
    """As text, whatever characters are in it, and in place of the sampler's command line."""
    graph = '<svg><text id="title" x="1">py-spy record</text><text id="details">x</text></svg>'
    assert readable(graph, "a < b") == graph.replace("py-spy record", "a &lt; b")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (f"{ROOT}/functions/store/outbox.py:7", "functions/store/outbox.py:7"),
        (f"{ROOT}/packages/any/src/any/host.py:7", "any/host.py:7"),
        (f"{ROOT}/.venv/lib/python3.13/site-packages/azure/core/rest.py:7", "azure/core/rest.py:7"),
        ("/usr/lib/python3.13/asyncio/events.py:7", "asyncio/events.py:7"),
        ("<string>:7", "<string>:7"),
    ],
)
def test_paths_begin_at_the_project_or_the_package(path: str, shown: str) -> None:
    """Whoever reads the graph knows where the environment is."""
    assert readable(f"<title>call ({path}) (3 samples, 1.0%)</title>", "") == (
        f"<title>call ({shown}) (3 samples, 1.0%)</title>"
    )


async def test_a_process_that_is_gone_is_an_error_with_its_reason(tmp_path: Path) -> None:
    """Before the block, so that nobody waits for a graph that never comes."""
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    with pytest.raises(PlatformError, match=r"^py-spy did not sample the host: ") as refused:
        async with flame_graph(gone.pid, tmp_path / "graph.svg", "title"):
            pytest.fail("the block was entered")
    assert re.fullmatch(r"[^\n]+", str(refused.value))
