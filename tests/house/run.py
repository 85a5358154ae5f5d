"""Run the tests of the packages, then those of the application, and print the slowest of each.

    python -m tests.house.run [--night] [options of pytest]

The environment variable WORKERS is the number of tests that run side by side (3).
Without `--night`, tests that are marked `night` do not run. Exit code: 0 all passed, 1 a test failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.house.documents import ROOT

_PACKAGES = ("packages/functions-local", "packages/servicebus-local")
_ADDITIONS = 20_000_000
_SLOWEST = 10
# The core is pure, so tests can reach every branch of it.
_COVERAGE = [
    "--cov=functions.core",
    "--cov-branch",
    "--cov-report=term-missing:skip-covered",
    "--cov-fail-under=100",
]


def main(options: Sequence[str], *, night: bool) -> int:
    """Run the tests with the options of pytest. `MAKE_BEGUN` holds the Unix time at which `make` started."""
    begun = time.time()
    installing = begun - float(os.environ.get("MAKE_BEGUN", begun))
    print(
        f"Speed of this machine: {_speed():.2f} s for 20 million additions (1 s: normal, 2 s: slow)",
        flush=True,
    )
    # Tests with processes mostly wait, so three workers keep two cores busy.
    workers = int(os.environ.get("WORKERS", "3"))
    # The packages' tests wait for locks of five seconds and more.
    of_packages = ["--numprocesses", str(2 * workers), "--dist", "worksteal"]
    # A worker starts a platform once for the tests of a folder, as files start in the order of folders.
    of_application = ["--numprocesses", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    of_application += [*_COVERAGE, *([] if night else ["-m", "not night"])]
    passed = [_run(folder, [*of_packages, *options]) for folder in _PACKAGES]
    passed.append(_run(".", [*of_application, *options]))
    print(f"Tests: {_minutes(time.time() - begun)}. Downloads and installs before: {_minutes(installing)}.")
    return 0 if all(passed) else 1


def _speed() -> float:
    """Return the seconds of 20 million additions in a loop."""
    begun, total = time.perf_counter(), 0
    for number in range(_ADDITIONS):
        total += number
    return time.perf_counter() - begun


def _run(where: str, options: Sequence[str]) -> bool:
    """Run pytest in a folder of the project; return whether all tests passed."""
    print(f"Tests in {where}" if where != "." else "Tests of the application", flush=True)
    command = [sys.executable, "-m", "pytest", "-rsfE", f"--durations={_SLOWEST}", *options]
    return subprocess.run(command, cwd=ROOT / where, check=False).returncode == 0


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


if __name__ == "__main__":
    sys.exit(main([each for each in sys.argv[1:] if each != "--night"], night="--night" in sys.argv))
