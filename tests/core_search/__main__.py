"""`python -m tests.core_search --first 0 --count 400 [--story]`: exit code 1 if a seed is violated.

`--planted` prints the first seed that sees each planted bug.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.core_search.search import search

#: Sets of texts have an order that depends on this variable.
_HASHES = "PYTHONHASHSEED"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.core_search", description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--story", action="store_true", help="print the end of each violated seed's story")
    given = parser.parse_args()
    return int(search(given.first, given.count, has_story=given.story) > 0)


if __name__ == "__main__":
    if os.environ.get(_HASHES) != "0":
        again = [sys.executable, "-m", "tests.core_search", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, _HASHES: "0"})  # noqa: S606 - the same command again
    sys.exit(main())
