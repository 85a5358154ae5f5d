"""Settings of all tests: Hypothesis, garbage collection and signals."""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

# A busy machine exceeds any deadline of an example.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")

# Thousands of tests have many live objects: the usual collections take an eighth of the time.
gc.freeze()
gc.set_threshold(5_000, 3, 1_000)

# A process in the background of a shell ignores SIGINT, and so would each program that a test interrupts.
for _signal, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)
