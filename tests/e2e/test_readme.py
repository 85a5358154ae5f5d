"""The README's commands, run in a shell, give the output that it shows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.caller import NEEDS_ORDERS, PATIENCE, running
from tests.house.documents import shell_commands

pytestmark = [pytest.mark.process, NEEDS_ORDERS]


async def test_curl_lines_have_their_described_results(tmp_path: Path) -> None:
    """202 with `Location`, then `Processed` with the step's times."""
    submit, look = (
        line for line in shell_commands("README.md") if line.startswith("curl") and "127.0.0.1" in line
    )
    async with running(tmp_path) as platform:
        answer = await _typed(submit.replace("http://127.0.0.1:7071", platform.addresses.host))
        assert answer.startswith("HTTP/1.1 202 Accepted")
        assert "location: /api/orders/my-first-order" in answer.lower()
        async with asyncio.timeout(PATIENCE):
            while True:
                order = json.loads(
                    await _typed(look.replace("http://127.0.0.1:7071", platform.addresses.host))
                )
                if order.get("state") == "Processed":
                    break
        assert order["steps"][0]["started_at"] < order["steps"][0]["finished_at"]


async def _typed(command: str) -> str:
    shell = await asyncio.create_subprocess_shell(
        f"{command} --silent", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, _ = await shell.communicate()
    return out.decode()
