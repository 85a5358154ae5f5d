"""A message is not given back at the first fault of a service."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from functions.messages.blueprint import process
from functions.messages.queues import QUEUES, dead_letter_queue, patience_of
from functions.pattern.errors import PermanentError, TransientError
from tests.fakes.messages import received

#: A message outside any trace.
MESSAGE = received()


class Work:
    """Fails as often as it is told."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures = failures
        self.error = error
        self.calls = 0

    async def __call__(self) -> None:
        """Fail, or do nothing."""
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error


async def test_transient_fault_is_tried_again() -> None:
    """A short outage costs a delay, and no delivery."""
    work = Work(2, TransientError("away"))
    await process("submissions", MESSAGE, work)
    assert work.calls == 3


async def test_patience_ends() -> None:
    """After a while the message is given back, with the last fault."""
    work = Work(1_000, TransientError("away for long"))
    with pytest.raises(TransientError, match="away for long"):
        await process("submissions", MESSAGE, work, patience=30)
    assert work.calls > 1


@pytest.mark.parametrize(
    ("error", "again"),
    [(TransientError("away"), False), (PermanentError("no"), True)],
    ids=["one try", "permanent"],
)
async def test_other_error_is_raised_at_once(error: Exception, *, again: bool) -> None:
    """A retry does not help, or the work has retries of its own."""
    work = Work(1, error)
    with pytest.raises(type(error)):
        await process("submissions", MESSAGE, work, again=again)
    assert work.calls == 1


async def test_work_that_hangs_is_given_up_in_time() -> None:
    """A store that is silent must not outlast the message's lock: it would be processed twice at once."""
    with pytest.raises(TransientError, match="not done within 30 s"):
        await process("submissions", MESSAGE, asyncio.Event().wait, patience=30)


async def test_fault_before_the_silence_is_told() -> None:
    """What is given up says why, also when the last try was cut."""

    async def away_and_then_silent() -> None:
        if not calls:
            calls.append(1)
            raise TransientError("403: the key was rotated")
        await asyncio.Event().wait()

    calls: list[int] = []
    with pytest.raises(TransientError, match="not done within 30 s; before that: 403: the key was"):
        await process("submissions", MESSAGE, away_and_then_silent, patience=30)


async def test_last_try_has_only_what_is_left_of_the_time() -> None:
    """A store that fails late and then falls silent does not get the whole time twice."""
    calls: list[float] = []

    async def work() -> None:
        calls.append(asyncio.get_running_loop().time())
        if len(calls) == 1:
            await asyncio.sleep(40)
            raise TransientError("away")
        await asyncio.Event().wait()

    with pytest.raises(TransientError, match="not done within 45 s"):
        await process("submissions", MESSAGE, work)
    assert asyncio.get_running_loop().time() - calls[0] == pytest.approx(45, abs=0.01)
    assert len(calls) == 2


async def test_interrupted_work_is_tried_again() -> None:
    """What it waited for was cancelled by somebody else: that is no error, and nothing is done."""

    class Interrupted(Work):
        async def __call__(self) -> None:
            self.calls += 1
            if self.calls == 1:
                awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                awaited.cancel()
                await awaited

    work = Interrupted(0, ValueError())
    await process("submissions", MESSAGE, work)
    assert work.calls == 2


async def test_work_that_is_cancelled_from_outside_ends() -> None:
    """The host stops the function: it must not go on, and not count as done."""
    working = asyncio.create_task(process("submissions", MESSAGE, asyncio.Event().wait))
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


def test_patience_ends_inside_the_lock_of_each_queue() -> None:
    """With time to settle the message, or to put it back; dead letters have their queue's lock."""
    defined = json.loads(Path("infra/queues.json").read_text(encoding="utf-8"))["queues"]
    locks = {each["name"]: _seconds(each["properties"]["lockDuration"]) for each in defined}
    assert locks == QUEUES
    for queue, lock in locks.items():
        assert 0 < patience_of(queue) == patience_of(dead_letter_queue(queue)) <= lock * 0.8


def _seconds(duration: str) -> int:
    number, unit = int(duration[2:-1]), duration[-1]
    return number * {"M": 60, "S": 1}[unit]
