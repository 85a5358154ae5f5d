"""Search the core exhaustively, and print the figures. A violated rule ends the search with an error."""

from __future__ import annotations

import argparse
import sys

from tests.model.search import search
from tests.model.workflows import SEARCHES

_STOPPED = 130


def main() -> int:
    """Run the named searches, or all. Return 130 if the command is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("searches", nargs="*", metavar="NAME", help=f"only these: {', '.join(SEARCHES)}")
    names = parser.parse_args().searches or list(SEARCHES)
    for name in names:
        if name not in SEARCHES:
            parser.error(f"{name!r} is not a search: use {', '.join(SEARCHES)}")
    try:
        for name in names:
            sys.stdout.write(f"{name}: {search(SEARCHES[name])}\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
