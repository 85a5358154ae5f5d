"""Searches the real core exhaustively, and prints what was seen; ends at the first rule that is violated."""

from __future__ import annotations

import argparse
import sys

from tests.model.search import search
from tests.model.workflows import SEARCHES

_STOPPED = 130


def main() -> int:
    """Run the searches of these names, or all; give 130 when stopped."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("searches", nargs="*", type=_search, help=f"only these: {', '.join(SEARCHES)}")
    given = parser.parse_args()
    for name in given.searches or SEARCHES:
        each = SEARCHES[name]
        _say(f"{name}: ")
        try:
            _say(f"{search(each.workflow, each.refused, each.left)}\n")
        except KeyboardInterrupt:
            _say("stopped before all was searched\n")
            return _STOPPED
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _search(text: str) -> str:
    if text not in SEARCHES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of the searches: {', '.join(SEARCHES)}")
    return text


if __name__ == "__main__":
    sys.exit(main())
