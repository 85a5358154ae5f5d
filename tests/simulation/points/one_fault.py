"""A path with one fault at one request, or with two."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from random import Random

from tests.simulation.checks.every import violations
from tests.simulation.checks.violations import Invariant, Violation
from tests.simulation.faults.kinds import CALM, FaultyFates
from tests.simulation.points.paths import SamplePath, answer, every_path
from tests.simulation.run.drawn_run import simulate, take_place
from tests.simulation.run.figures import Figures
from tests.simulation.run.platform import Platform
from tests.simulation.world.world import Fate, Mishap, Place, Timeline

#: What befalls a request.
MISHAPS = (Mishap.CRASH_BEFORE, Mishap.CRASH_AFTER, Mishap.ANSWER_LOST)


class FatesAtPoints(FaultyFates):
    """Lets requests of given numbers meet a mishap, and no others. `count` is how many there were."""

    def __init__(self, mishaps: Mapping[int, Mishap]) -> None:
        super().__init__(Random("points"), CALM)
        self._at = dict(mishaps)
        self.count = 0

    def of(self, host: str, place: Place, what: str) -> Fate:
        """Decide."""
        self.count += 1
        return replace(super().of(host, place, what), mishap=self._at.get(self.count))


@dataclass(frozen=True, slots=True)
class PointVerdict:
    """What came of it."""

    path: SamplePath
    mishaps: Mapping[int, Mishap]
    violations: list[Violation]
    timeline: Timeline
    requests: int
    states: Mapping[str, int]
    seconds: float
    cpu: float

    def figures(self, number: int) -> Figures:
        """Give what is kept of it under a number."""
        return Figures(
            seed=number,
            violations=tuple(f"{self.path}: {e.invariant.number} {e.what}" for e in self.violations),
            digest=self.timeline.digest,
            outcomes=dict(self.states),
            faults=dict(self.timeline.faults),
            kinds=frozenset(self.timeline.kinds),
            seconds=self.seconds,
            cpu=self.cpu,
            widest=0,
            deepest=0,
        )

    def __str__(self) -> str:
        points = ", ".join(f"{mishap.value} at request {number}" for number, mishap in self.mishaps.items())
        return "\n  ".join(
            [f"{self.path}: {points}", *(f"{e.invariant.number}: {e.what}" for e in self.violations)]
        )


def run_path(path: SamplePath, mishaps: Mapping[int, Mishap], *, threshold: int = 1) -> PointVerdict:
    """Run it; the Supervisor recovers a task so often before it makes it wait."""
    begin = time.process_time()
    scenario, fates = path.scenario(threshold), FatesAtPoints(mishaps)

    async def story(platform: Platform) -> tuple[list[Violation], dict[str, str]]:
        platform.services.result = answer
        taken = partial(take_place, scenario, CALM, fates, platform, path.manner())
        evidence = await taken()
        states = {task: rows.task.state for task, rows in evidence.tasks.items() if rows.task}
        return violations(evidence), states

    (found, states), world = simulate("points", fates, story, scenario.times.settings)
    for task, state in states.items():
        if state not in path.ends:
            found.append(Violation(Invariant.MONOTONE, task, f"ended {state}"))
    return PointVerdict(
        path,
        mishaps,
        found,
        world.timeline,
        fates.count,
        Counter(states.values()),
        world.loop.time(),
        time.process_time() - begin,
    )


def count_points(path: SamplePath) -> int:
    """Count the points of a path: each mishap at each of its requests."""
    return run_path(path, {}).requests * len(MISHAPS)


def run_point(path: SamplePath, number: int) -> PointVerdict:
    """Run a path with the mishap of a point, of which the first has the number 0."""
    request, mishap = divmod(number, len(MISHAPS))
    return run_path(path, {request + 1: MISHAPS[mishap]})


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
