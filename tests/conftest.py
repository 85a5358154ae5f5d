"""What holds for all tests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

_TESTS = Path(__file__).parent

# Timings never decide a test: a busy machine would.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")

# What a shell starts in the background ignores Ctrl-C, and so would each program that a test interrupts.
for _signal, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the simulation run beside the tests of `local`: it computes all the time, and they mostly wait."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[str, bool]:
    folder = item.path.relative_to(_TESTS).parts[0]
    computes = folder in {"model", "simulation"}
    return ("local" if computes else folder, not computes)
