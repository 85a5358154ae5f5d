"""`python -m local`: the command line of the local platform."""

from __future__ import annotations

import sys
from importlib.util import find_spec

if __name__ == "__main__":
    # Another Python may be too old to read the rest.
    if find_spec("functions_local") is None:
        print("this Python lacks the project: `make setup`, then .venv/bin/python -m local", file=sys.stderr)
        sys.exit(2)
    from local.command_line import main

    sys.exit(main())
