"""What is judged of a run beside its ends: defects that the application logs, and how wide its graphs are."""

from __future__ import annotations

import logging
from random import Random

from functions.pattern.errors import TransientError
from tests.simulation.run.drawn_run import Scenario
from tests.simulation.run.platform import Platform
from tests.simulation.run.simulate import simulate
from tests.simulation.run.verdict import run_seed
from tests.simulation.tables.filters import terms_of
from tests.simulation.world.calm import CalmFates

_WIDE = 40
_log = logging.getLogger("functions.supervisor")


async def _goes_wrong(_platform: Platform) -> None:
    for error in (TransientError("no store"), ValueError("a defect")):
        _log.error("left to the next run", exc_info=error)


def test_defect_that_is_logged_is_found() -> None:
    """What the world around the application does is none; afterwards all is logged as before."""
    _, world = simulate(1, CalmFates(Random(1)), _goes_wrong, {})
    assert world.loop.unhandled == ["left to the next run: ValueError: a defect"]
    assert _log.isEnabledFor(logging.ERROR)


def test_some_graphs_are_as_wide_as_a_workflow_can_be() -> None:
    """All their steps are ready at once; and how wide a graph is, its verdict tells."""
    wide = [seed for seed in range(300) if _at_once(seed) == _WIDE]
    assert wide
    assert run_seed(wide[0]).widest == _WIDE


def _at_once(seed: int) -> int:
    graphs = (each.workflow.steps for each in Scenario.drawn(seed).registrations)
    return max(sum(not step.needs for step in steps) for steps in graphs)


def test_filter_may_name_alternatives() -> None:
    """As that for old rejected messages does."""
    [before, either] = terms_of("At lt '5' and ( RowKey ge 'n' or GoneAt lt '5' )")
    rows = [{"At": "4", "RowKey": "a"}, {"At": "4", "RowKey": "z"}, {"At": "4", "RowKey": "a", "GoneAt": "3"}]
    assert [before.holds(row) and either.holds(row) for row in rows] == [False, True, True]
