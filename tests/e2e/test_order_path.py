"""An order's whole path through the platform; the README's commands give the output that it shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
import pytest_asyncio

from local.platform import Platform
from tests.e2e.caller import NEEDS_ORDERS, ORDER, PATIENCE, Caller, running
from tests.house.documents import shell_commands

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """Run the platform."""
    async with running(tmp_path_factory.mktemp("orders")) as platform:
        yield platform


async def test_order_is_accepted_and_processed(platform: Platform) -> None:
    """202 with `Location`, where a GET soon returns `Processed`, with the step's times and the output.

    Operators see the task. Health, pages and the OpenAPI document are served.
    """
    async with Caller.of(platform) as caller:
        async with caller.session.post("/api/orders", json=ORDER) as answer:
            assert answer.status == HTTPStatus.ACCEPTED
            location = answer.headers["Location"]
        order = await caller.until_state(location.rpartition("/")[2], "Processed")
        step = order["steps"][0]
        assert (step["name"], step["state"]) == ("payment", "Completed")
        assert order["submitted_at"] < step["started_at"] < step["finished_at"] <= order["finished_at"]
        assert order["output"]["currency"] == ORDER["currency"]
        for page in (f"ops/tasks/{order['id']}", "ops/overview", "ops", "health", "openapi.json"):
            async with caller.session.get(f"/api/{page}") as answer:
                assert answer.status == HTTPStatus.OK, page


async def test_curl_lines_have_their_described_results(platform: Platform) -> None:
    """202 with `Location`, then `Processed` with the step's times."""
    curl = (line for line in shell_commands("README.md") if line.startswith("curl") and "127.0.0.1" in line)
    submit, look = (line.replace("http://127.0.0.1:7071", platform.addresses.host) for line in curl)
    answer = await _typed(submit)
    assert answer.startswith("HTTP/1.1 202 Accepted")
    assert "location: /api/orders/my-first-order" in answer.lower()
    async with asyncio.timeout(PATIENCE):
        while (order := json.loads(await _typed(look))).get("state") != "Processed":
            pass
    assert order["steps"][0]["started_at"] < order["steps"][0]["finished_at"]


async def _typed(command: str) -> str:
    shell = await asyncio.create_subprocess_shell(
        f"{command} --silent", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, _ = await shell.communicate()
    return out.decode()
