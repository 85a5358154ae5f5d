"""What holds for all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

from functions.machine import collect_garbage_rarely

# Timings never decide a test: a busy machine would.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")

# Of thousands of tests, much is alive: looking for cycles as often as usual takes an eighth of the time.
collect_garbage_rarely()

# What a shell starts in the background ignores Ctrl-C, and so would each program that a test interrupts.
for _signal, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)
