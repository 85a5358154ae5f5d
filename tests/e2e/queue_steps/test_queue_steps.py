"""The wait for an Agent behind a queue ends with its reply or at the deadline of the step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from functions.messaging.queue_names import AGENT_REPLIES_QUEUE
from tests.e2e.queue_steps.bench import PATIENCE, REQUESTS_QUEUE, Bench, running

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@asynccontextmanager
async def _serving(bench: Bench) -> AsyncIterator[None]:
    """Reply to each request."""

    async def serve() -> None:
        while True:
            request, _ = await bench.next_request()
            await bench.reply(request, "answer")

    agent = asyncio.create_task(serve())
    try:
        yield
    finally:
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)


@pytest.mark.parametrize("expire_on_receive", [False, True])
async def test_expired_request_is_not_delivered(tmp_path: Path, *, expire_on_receive: bool) -> None:
    """An Agent that is away until its request has expired costs one failure. It then gets another request."""
    settings = {"BREAKER_FAILURES": "1", "BREAKER_OPEN_SECONDS": "5", "STEP_SECONDS": "letters.answer=10"}
    async with (
        running(tmp_path, settings, expire_on_receive=expire_on_receive) as bench,
        asyncio.timeout(3 * PATIENCE),
    ):
        await bench.submit("l1")
        await bench.figures(REQUESTS_QUEUE, lambda each: each["sent"] > 0)
        while (row := await bench.row("l1"))["WaitingFor"] != "deferred":
            await asyncio.sleep(0.1)
        assert row["FailureCount"] == 1
        if expire_on_receive:
            figures = await bench.figures(REQUESTS_QUEUE)
            assert (figures["active"], figures["expired"]) == (figures["sent"], 0)
        else:
            await bench.figures(REQUESTS_QUEUE, lambda each: each["expired"] > 0)
        async with _serving(bench):
            assert await bench.until_output("l1") == {"text": "answer"}
            figures = await bench.figures(REQUESTS_QUEUE, lambda each: not each["active"])
        assert figures["expired"] > 0
        assert figures["sent"] == figures["expired"] + figures["completed"]
        assert (await bench.row("l1"))["FailureCount"] <= 1


async def test_only_the_deadline_ends_a_wait_of_a_month(tmp_path: Path) -> None:
    """A reply after 29 of 30 days counts. After 31 days the request is sent again; only its reply counts."""
    async with running(tmp_path, {}, expire_on_receive=True) as bench, asyncio.timeout(3 * PATIENCE):
        await bench.submit("l1")
        await bench.until_sent("l1")
        await bench.advance(29)
        request, time_to_live = await bench.next_request()
        assert timedelta(days=29) < time_to_live <= timedelta(days=30)
        await bench.reply(request, "after 29 days")
        assert await bench.until_output("l1") == {"text": "after 29 days"}
        row = await bench.row("l1")
        assert (row["Epoch"], row["FailureCount"]) == (1, 0)

        await bench.submit("l2")
        await bench.until_sent("l2")
        first, _ = await bench.next_request()
        await bench.advance(29 + 31)
        second, _ = await bench.next_request()
        assert (first.epoch, second.epoch, second.effect_key) == (1, 2, first.effect_key)
        await bench.reply(first, "after 31 days")
        assert (await bench.figures(AGENT_REPLIES_QUEUE))["completed"] == 2
        assert (await bench.row("l2"))["WaitingFor"] == "reply"
        await bench.reply(second, "at once")
        assert await bench.until_output("l2") == {"text": "at once"}
