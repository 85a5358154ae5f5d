"""Searches the real core exhaustively, and prints what was seen; ends at the first rule that is violated."""

from __future__ import annotations

import argparse
import sys

from tests.model.search import search
from tests.model.workflows import SEARCHES


def main() -> None:
    """Run the searches of these names, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("searches", nargs="*", type=_search, help=f"only these: {', '.join(SEARCHES)}")
    given = parser.parse_args()
    for name in given.searches or SEARCHES:
        each = SEARCHES[name]
        sys.stdout.write(f"{name}: {search(each.workflow, each.refused, each.left)}\n")
        sys.stdout.flush()


def _search(text: str) -> str:
    if text not in SEARCHES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of the searches: {', '.join(SEARCHES)}")
    return text


if __name__ == "__main__":
    main()
