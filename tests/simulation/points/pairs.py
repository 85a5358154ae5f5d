"""Two faults on one path, at any two of its requests: too many to run all, so each number draws a pair."""

from __future__ import annotations

from functools import cache
from random import Random

from tests.simulation.points.one_fault import MISHAPS, PointVerdict, run_path
from tests.simulation.points.paths import SamplePath, every_path

#: Two crashes, and what the path itself costs, must not use up a task's recoveries.
_THRESHOLD = 3


def run_pair(number: int) -> PointVerdict:
    """Run the pair that a number draws."""
    chance = Random(f"{number}/pair")
    path = chance.choice(every_path())
    first, second = sorted(chance.sample(range(1, _requests(path) + 1), 2))
    mishaps = {first: chance.choice(MISHAPS), second: chance.choice(MISHAPS)}
    return run_path(path, mishaps, threshold=_THRESHOLD)


@cache
def _requests(path: SamplePath) -> int:
    return run_path(path, {}, threshold=_THRESHOLD).requests
