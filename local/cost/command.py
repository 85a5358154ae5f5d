"""The command: counts, and prints what a million orders cost."""

from __future__ import annotations

import sys

from rich.console import Console

from local.cost.counting import Counting
from local.cost.tables import PAGE, page, tables
from local.platform import INTERRUPTED, until_stop_signal
from local.progress import Phases

_DONE = 0


async def cost(orders: int, *, write_page: bool) -> int:
    """Count with so many orders at once, print the tables, and `write_page` if asked."""
    phases = Phases(Console(stderr=True))
    counting = Counting(orders, phases)

    async def count_and_print() -> int:
        with phases:
            counted = await counting.count()
        sys.stdout.write("\n\n".join(tables(counted)) + "\n")
        if write_page:
            PAGE.write_text(page(counted), encoding="utf-8")
        return _DONE

    return await until_stop_signal(count_and_print(), counting.kill_all_now, stopped=INTERRUPTED)
