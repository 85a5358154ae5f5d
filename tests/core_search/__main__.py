"""`python -m tests.core_search --first 0 --count 400 [--story]`: exit code 1 if a seed is violated."""

from __future__ import annotations

import argparse
import sys

from tests.core_search.search import search


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.core_search", description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--story", action="store_true", help="print the end of each violated seed's story")
    given = parser.parse_args()
    return int(search(given.first, given.count, has_story=given.story) > 0)


if __name__ == "__main__":
    sys.exit(main())
