"""A message is not given back at the first fault of a service."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import azure.functions as func
import pytest

from functions.messages.blueprint import process
from functions.pattern.errors import PermanentError, TransientError

#: A message outside any trace.
MESSAGE = cast("func.ServiceBusMessage", SimpleNamespace(application_properties=None))


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
    await process("queue", MESSAGE, work)
    assert work.calls == 3


async def test_patience_ends() -> None:
    """After a while the message is given back, with the last fault."""
    work = Work(1_000, TransientError("away for long"))
    with pytest.raises(TransientError, match="away for long"):
        await process("queue", MESSAGE, work, patience=0.3)
    assert work.calls > 1


async def test_without_patience_one_attempt_is_all() -> None:
    """For work with retries of its own."""
    work = Work(1, TransientError("away"))
    with pytest.raises(TransientError, match="away"):
        await process("queue", MESSAGE, work, patience=0)
    assert work.calls == 1


async def test_other_error_is_raised_at_once() -> None:
    """What no retry can help is not tried again."""
    work = Work(1, PermanentError("no"))
    with pytest.raises(PermanentError):
        await process("queue", MESSAGE, work)
    assert work.calls == 1
