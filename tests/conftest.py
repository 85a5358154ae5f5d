"""What holds for all tests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from functions.machine import collect_garbage_rarely

_TESTS = Path(__file__).parent

# Timings never decide a test: a busy machine would.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")

# Of thousands of tests, much is alive: looking for cycles as often as usual takes an eighth of the time.
collect_garbage_rarely()

# What a shell starts in the background ignores Ctrl-C, and so would each program that a test interrupts.
for _signal, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a folder's tests together, as they share a platform. The longest file runs first."""
    first = dict[str, int]()
    for item in items:
        for folder in _folders(item):
            first.setdefault(folder, len(first))
    items.sort(key=lambda item: (item.path.name != "test_points.py", [first[it] for it in _folders(item)]))


def _folders(item: pytest.Item) -> list[str]:
    """Return the folders around a test, the outermost first; computing tests join those of `local`."""
    parts = item.path.relative_to(_TESTS).parts[:-1]
    if {"model", "simulation"}.intersection(parts[:1]):
        return ["local"]
    return ["/".join(parts[:number]) for number in range(1, len(parts) + 1)]
