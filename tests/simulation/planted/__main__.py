"""Searches from the first seed which one catches each planted bug, and keeps it in `caught.txt`, for CI."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from local.arguments import positive
from tests.simulation.planted.caught import Caught, keep, kept
from tests.simulation.planted.copies import every_bug, make_copy, planted
from tests.simulation.seeds import simulated

#: By how many seeds each must be caught.
_MOST_SEEDS = 2_000


def main() -> int:
    """Search, keep what is found, and print it; 0 only when every bug is caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument("bugs", nargs="*", type=_bug, help="only these")
    parser.add_argument(
        "--most", type=positive, default=_MOST_SEEDS, help=f"seeds to try (default: {_MOST_SEEDS})"
    )
    given = parser.parse_args()
    bugs = given.bugs or every_bug()
    known = {bug: caught for bug, caught in kept().items() if bug in every_bug()}
    found: list[Caught] = []
    with tempfile.TemporaryDirectory() as folder:
        make_copy(Path(folder))
        for bug in bugs:
            caught = _search(Path(folder), bug, given.most)
            print(caught or f"{bug}: not caught by {given.most} seeds", flush=True)
            if caught is not None:
                found.append(caught)
                known[bug] = caught
                keep(known.values())
    _summarize(found, len(bugs))
    return 0 if len(found) == len(bugs) else 1


def _bug(text: str) -> str:
    if text not in every_bug():
        raise argparse.ArgumentTypeError(f"{text!r} is none of the bugs: {', '.join(every_bug())}")
    return text


def _search(folder: Path, bug: str, most: int) -> Caught | None:
    with planted(folder, bug):
        run = simulated("--first", "0", "--count", str(most), "--stop", folder=folder)
    return Caught.told(bug, run.stdout)


def _summarize(found: Sequence[Caught], searched: int) -> None:
    """Tell which invariants see a bug that no other sees."""
    alone = Counter(caught.invariants[0] for caught in found if len(caught.invariants) == 1)
    print(f"{len(found)} of {searched} bugs caught; by one invariant alone:")
    for invariant, bugs in sorted(alone.items(), key=lambda each: int(each[0][1:])):
        print(f"  {invariant:<4} {bugs}")


if __name__ == "__main__":
    sys.exit(main())
