"""`python -m tests.simulation.planted`: searches from the first seed which one catches each planted bug."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.simulation.planted.caught import Caught, keep, kept
from tests.simulation.planted.copies import every_bug, make_copy, planted
from tests.simulation.seeds import simulated

#: By how many seeds each must be caught.
_MOST_SEEDS = 2_000


def main() -> int:
    """Search, keep what is found, and print it; 0 only when every bug is caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument("bugs", nargs="*", help="only these")
    parser.add_argument("--most", type=int, default=_MOST_SEEDS, help="seeds to try")
    given = parser.parse_args()
    found = {bug: caught for bug, caught in kept().items() if bug in every_bug()}
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        make_copy(Path(folder))
        for bug in given.bugs or every_bug():
            caught = _search(Path(folder), bug, given.most)
            print(caught or f"{bug}: not caught by {given.most} seeds", flush=True)
            if caught is None:
                missed.append(bug)
                continue
            found[bug] = caught
            keep(found.values())
    _summarize(found)
    return 1 if missed else 0


def _search(folder: Path, bug: str, most: int) -> Caught | None:
    with planted(folder, bug):
        run = simulated("--first", "0", "--count", str(most), "--stop", folder=folder)
    return Caught.told(bug, run.stdout)


def _summarize(found: dict[str, Caught]) -> None:
    """Tell which invariants see a bug that no other sees."""
    alone = Counter(caught.invariants[0] for caught in found.values() if len(caught.invariants) == 1)
    print(f"{len(found)} bugs caught; seen by one invariant alone: {dict(sorted(alone.items()))}")


if __name__ == "__main__":
    sys.exit(main())
