"""What the command line has chosen."""

from __future__ import annotations

import argparse
from collections.abc import Coroutine

from tests.chaos.run import command
from tests.chaos.run.environment import Layout
from tests.chaos.run.release import ReleaseGoal


def chaos_as_chosen(chosen: argparse.Namespace) -> Coroutine[None, None, int]:
    """Return the one run, or the piece of a release run, that was asked for."""
    if chosen.release is None:
        layout = Layout(chosen.hosts, chosen.submit_to, split=chosen.roles == "split")
        return command.chaos(chosen.seed, chosen.orders, chosen.minutes, layout)
    goal = ReleaseGoal(chosen.tasks, chosen.kills, chosen.piece * 60)
    return command.release(chosen.release, goal, chosen.orders, chosen.minutes)
