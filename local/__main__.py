"""`python -m local`: the command line of the local platform."""

from __future__ import annotations

import sys

from local.command_line import main

if __name__ == "__main__":
    sys.exit(main())
