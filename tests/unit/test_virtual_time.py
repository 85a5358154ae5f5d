"""The time of unit tests: it passes at once where only a timer is waited for, and otherwise as it does."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest


async def test_virtual_wait_takes_no_real_time() -> None:
    """An hour passes at once."""
    loop, began = asyncio.get_running_loop(), time.monotonic()
    before = loop.time()
    await asyncio.sleep(3_600)
    assert loop.time() - before >= 3_600
    assert time.monotonic() - began < 60


async def test_computing_takes_no_virtual_time() -> None:
    """A busy machine lets no time limit pass."""
    async with asyncio.timeout(0.01):
        time.sleep(0.05)  # noqa: ASYNC251 - as if it computed
        await asyncio.sleep(0)


async def test_thread_has_the_time_that_it_takes() -> None:
    """Its caller's time limit does not pass at once."""
    async with asyncio.timeout(60):
        await asyncio.to_thread(time.sleep, 0.05)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(time.sleep, 0.05), 0.01)


async def test_socket_has_the_time_that_it_takes() -> None:
    """A call without an answer ends after the time limit, by the machine's clock."""
    near, far = socket.socketpair()
    near.setblocking(False)
    began = time.monotonic()
    with near, far, pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().sock_recv(near, 1), 0.05)
    assert time.monotonic() - began >= 0.05 / 2


async def test_work_that_never_waits_does_not_stop_the_time() -> None:
    """Such as tries again without a pause."""

    async def again_and_again() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(again_and_again(), 0.01)
