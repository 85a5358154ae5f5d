"""`python -m tests.simulation`: as `make simulate SEED=…`, and for many seeds."""

from __future__ import annotations

import os
import sys
import warnings

from functions.machine import collect_garbage_rarely
from tests.simulation.run.command import main

#: Sets of texts have an order that differs from process to process, unless this says which.
_HASHES = "PYTHONHASHSEED"

if __name__ == "__main__":
    if os.environ.get(_HASHES) != "0":
        again = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, _HASHES: "0"})  # noqa: S606 - the same once more
    warnings.simplefilter("ignore")  # what a crash leaves unawaited
    collect_garbage_rarely()
    sys.exit(main(sys.argv[1:]))
