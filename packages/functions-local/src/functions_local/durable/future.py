"""Futures without an event loop: the Shim replays a whole orchestration in one synchronous run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial


class Future:
    """A result that completes or fails once. It has no value: only the SDK uses values."""

    __slots__ = ("_callbacks", "done", "failed")

    def __init__(self) -> None:
        self.done = False
        self.failed = False
        self._callbacks: list[Callable[[], None]] = []

    def settle(self, *, failed: bool = False) -> None:
        """Mark it done and run its callbacks. A second call changes nothing."""
        if self.done:
            return
        self.done, self.failed = True, failed
        for callback in self._callbacks:
            callback()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Run the callback when it is done, or at once if it already is."""
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)


type Steps = Generator[Future]


def drive(steps: Steps) -> None:
    """Run a generator up to the first future that is not done, and continue when it is."""
    for awaited in steps:
        if not awaited.done:
            awaited.when_done(partial(drive, steps))
            return


def settled() -> Future:
    """Return a future that is done."""
    future = Future()
    future.settle()
    return future


def when_count(children: Sequence[Future], needed: int) -> Future:
    """Return a future that is done when `needed` of the children are, failed ones included."""
    combined = Future()

    def check() -> None:
        if sum(child.done for child in children) >= needed:
            combined.settle()

    check()
    for child in children:
        child.when_done(check)
    return combined
