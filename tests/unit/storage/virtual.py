"""Tests in virtual time: pauses and deadlines take no time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from tests.fakes.virtual_time import in_virtual_time


def virtual[**Args](test: Callable[Args, Coroutine[Any, Any, None]]) -> Callable[Args, None]:
    """Run an asynchronous test in virtual time."""

    @wraps(test)
    def run(*args: Args.args, **named: Args.kwargs) -> None:
        in_virtual_time(test(*args, **named))

    return run
