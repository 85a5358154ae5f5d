"""What can be raised beside errors is told as one that may pass."""

from __future__ import annotations

import asyncio

from functions.pattern.errors import TransientError, as_error


def test_work_that_was_cancelled_is_to_be_done_again() -> None:
    """It says nothing of the work itself; an error stays what it is."""
    told, error = as_error(asyncio.CancelledError()), ValueError("no")
    assert isinstance(told, TransientError)
    assert str(told) == "interrupted: CancelledError"
    assert as_error(error) is error
