"""`python -m tests.model`: searches, and prints what it has seen."""

from __future__ import annotations

import sys

from tests.model.search import search
from tests.model.workflows import SEARCHES


def main(names: list[str]) -> None:
    """Run the searches of these names, or all."""
    for name, each in SEARCHES.items():
        if not names or name in names:
            sys.stdout.write(f"{name}: {search(each.workflow, each.refused, each.left)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
