"""Search seeds for violations, or repeat one seed and print its story. Exit code 1: a seed is violated.

python -m tests.simulation --first 0 --count 400
python -m tests.simulation --seed 14 --task t1
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.search import repeat, search, search_planted


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--first", type=int, default=0, metavar="N", help="first seed (default: 0)")
    parser.add_argument("--count", type=int, default=400, metavar="N", help="number of seeds (default: 400)")
    parser.add_argument("--seed", type=int, metavar="N", help="repeat this seed, and print its story")
    parser.add_argument("--task", metavar="ID", help="of the story, print the lines of one task, such as t1")
    parser.add_argument("--calm", action="store_true", help="repeat the seed without drawn faults")
    shrink = "leave out the kinds of faults without which the seed is still violated"
    parser.add_argument("--shrink", action="store_true", help=shrink)
    planted = "print the first of the seeds that sees each planted bug; exit code 1: a bug is not seen"
    parser.add_argument("--planted", action="store_true", help=planted)
    given = parser.parse_args()
    if given.seed is not None:
        return repeat(given.seed, task=given.task, is_calm=given.calm, is_shrunk=given.shrink)
    run = search_planted if given.planted else search
    return int(run(given.first, given.count) > 0)


if __name__ == "__main__":
    sys.exit(main())
