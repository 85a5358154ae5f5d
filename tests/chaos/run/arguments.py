"""What the command line has chosen."""

from __future__ import annotations

import argparse
from collections.abc import Coroutine

from tests.chaos.run import command
from tests.chaos.run.environment import Layout


def chaos_as_chosen(chosen: argparse.Namespace) -> Coroutine[None, None, int]:
    """Return the run with the chosen options."""
    layout = Layout(chosen.hosts, chosen.submit_to, split=chosen.roles == "split")
    return command.chaos(chosen.seed, chosen.orders, chosen.minutes, layout)
