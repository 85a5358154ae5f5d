"""One log of all parts on stderr: each line begins with the name of its part, in that part's colour."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from local.platform.parts import PartName

_COLOURS = {PartName.AZURITE: "\033[36m", PartName.BROKER: "\033[35m", PartName.HOST: "\033[33m"}
_PLAIN = "\033[0m"
_WIDTH = max(map(len, PartName))


def write(part: PartName, line: str) -> None:
    """Write one line of `part`. A reader that went away (`2>&1 | head`) stops no part."""
    prefix = f"{part:<{_WIDTH}} |"
    if _coloured():
        prefix = f"{_COLOURS[part]}{prefix}{_PLAIN}"
    # `sys.stderr` is looked up each time: a live display puts itself in its place, to keep lines above it.
    with suppress(BrokenPipeError):
        print(prefix, line, file=sys.stderr, flush=True)


def _coloured() -> bool:
    """Colour is for terminals, and for people who have not set NO_COLOR (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
