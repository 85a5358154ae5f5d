"""`python -m tests.chaos`: the same as `python -m local chaos`."""

from __future__ import annotations

import sys

from local.command_line import main

if __name__ == "__main__":
    sys.exit(main(["chaos", *sys.argv[1:]]))
