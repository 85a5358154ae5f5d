"""A newcomer sees the progress of one order."""

from __future__ import annotations

import io
import json
import shlex

import pytest
from rich.console import Console

from local.callers.client import SAMPLE_ORDER, OrderClient, OrderRefusedError, OrderState
from local.callers.one_order import next_command, show_one_order
from tests.local.callers.canned_api import canned_api
from tests.local.platform.processes import PATIENCE


async def _shown(*life: str | None, terminal: bool = False) -> str:
    """Return what is printed about an order with this life."""
    screen = io.StringIO()
    async with canned_api(life) as url:
        await show_one_order(url.rstrip("/"), Console(file=screen, force_terminal=terminal, width=100))
    return screen.getvalue()


async def test_each_change_is_a_line_where_there_is_no_terminal() -> None:
    """A log file shows the same progress; an unchanged state is not repeated."""
    lines = (await _shown(None, "Pending", "Processing", "Processing", "Processed")).splitlines()
    assert [line.split()[0] for line in lines] == [
        "Submitted:",
        "Pending",
        "Processing",
        "Processed",
        "Processed",
    ]
    assert lines[-1] == "Processed after 0.25 s"


async def test_a_terminal_gets_a_table_of_steps_with_times() -> None:
    """It is redrawn at each change."""
    screen = await _shown("Processing", "Processed", terminal=True)
    assert "payment" in screen
    assert "10:00:00.250" in screen


async def test_the_reason_of_an_error_is_shown() -> None:
    """It is the API's last error, in the last line."""
    assert (await _shown("Error")).splitlines()[-1] == "Error after 0.25 s: the card was refused"


async def test_an_order_that_never_ends_is_given_up() -> None:
    """The wait has a limit."""
    async with canned_api(["Processing"]) as url, OrderClient.at(url) as client:
        await client.submit("stuck")
        with pytest.raises(TimeoutError):
            [order async for order in client.follow("stuck", within=0.2)]


async def test_a_refused_order_raises_the_apis_reason() -> None:
    """Only a success status counts as one."""
    async with canned_api(submit_status=422) as url, OrderClient.at(url) as client:
        with pytest.raises(OrderRefusedError, match=r"422.*canned"):
            await client.submit("refused")


async def test_every_change_is_followed_to_the_end() -> None:
    """404 means that the order is still on the queue."""
    async with canned_api() as url, OrderClient.at(url) as client:
        await client.submit("one")
        states = [order.state async for order in client.follow("one", within=PATIENCE)]
    assert states == [OrderState.PENDING, OrderState.PROCESSING, OrderState.PROCESSED]


def test_the_command_to_try_next_sends_the_sample_order() -> None:
    """It can be pasted into a shell as it is."""
    words = shlex.split(next_command("http://127.0.0.1:7071"))
    assert words[:3] == ["curl", "-i", "http://127.0.0.1:7071/api/orders"]
    assert json.loads(words[-1]) == SAMPLE_ORDER
