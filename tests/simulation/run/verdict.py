"""The verdict on a seed, and the smallest set of kinds of faults that violates the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from functions.pattern.definition import Workflow
from tests.simulation.checks import as_drawn
from tests.simulation.checks.every import violations
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.violations import Invariant, Violation
from tests.simulation.drawn.load import PLAIN, expected_states
from tests.simulation.faults.kinds import CALM, FaultPlan, FaultyFates, SimulatedFault
from tests.simulation.run.drawn_run import Scenario, simulate, take_place
from tests.simulation.run.figures import Figures
from tests.simulation.world.world import Timeline


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one seed; `seconds` are virtual, `cpu` are this process's."""

    seed: int
    violations: Sequence[Violation]
    timeline: Timeline
    #: The state in which each task is in the end.
    states: Mapping[str, str]
    seconds: float
    cpu: float
    workflows: Sequence[Workflow]

    @property
    def widest(self) -> int:
        """Count the steps of which no two need each other, in the workflow that has most."""
        return max(max(Counter(_depths(each)).values()) for each in self.workflows)

    @property
    def figures(self) -> Figures:
        """Give what is kept of it."""
        return Figures(
            seed=self.seed,
            violations=tuple(
                f"{each.invariant.number} {each.order}: {each.what}" for each in self.violations
            ),
            digest=self.timeline.digest,
            outcomes=dict(Counter(self.states.values())),
            faults=dict(self.timeline.faults),
            kinds=frozenset(self.timeline.kinds),
            seconds=self.seconds,
            cpu=self.cpu,
            widest=self.widest,
            deepest=max(max(_depths(each)) for each in self.workflows),
        )


def run_seed(seed: int, *, calm: bool = False, without: Collection[SimulatedFault] = ()) -> Verdict:
    """Run it; a run in which nothing is to harm a task must also end as was drawn."""
    begin = time.process_time()
    scenario = Scenario.drawn(seed)
    plan = CALM if calm else FaultPlan.drawn(seed, without)
    fates = FaultyFates(Random(f"{seed}/fates"), plan)
    story = partial(take_place, scenario, plan, fates)
    evidence, world = simulate(seed, fates, story, scenario.times.settings)
    found = violations(evidence)
    drawn = as_drawn.with_children(scenario.orders, evidence, scenario.child)
    found += [*as_drawn.requests(drawn, evidence), *as_drawn.results(evidence)]
    if plan.is_mild:
        found += [*_unexpected(scenario, evidence), *as_drawn.steps(drawn, evidence)]
    found += _unfinished(evidence)
    return Verdict(
        seed=seed,
        violations=found,
        timeline=world.timeline,
        states={task: rows.task.state for task, rows in evidence.tasks.items() if rows.task is not None},
        seconds=world.loop.time(),
        cpu=time.process_time() - begin,
        workflows=[each.workflow for each in scenario.registrations],
    )


def _depths(workflow: Workflow) -> Sequence[int]:
    """Count the steps of the longest chain of needs to each step; no two of one depth need each other."""
    depths: dict[str, int] = {}
    for step in workflow.steps:
        depths[step.name] = 1 + max((depths[need] for need in step.needs), default=0)
    return [*depths.values()]


def _unfinished(evidence: Evidence) -> list[Violation]:
    """Find out whether the order to which nothing happens was not processed: all is healed when it comes."""
    rows = evidence.tasks.get(PLAIN)
    state = None if rows is None or rows.task is None else rows.task.state
    what = f"ended {state}, though it came after the last fault"
    return [] if state == "Processed" else [Violation(Invariant.UNHARMED, PLAIN, what)]


def _unexpected(scenario: Scenario, evidence: Evidence) -> list[Violation]:
    """Find orders that did not end as was drawn, and recoveries without a reason."""
    found = []
    for order in scenario.orders:
        rows = evidence.tasks.get(order.id)
        state = None if rows is None or rows.task is None else rows.task.state
        is_cancelled, version = order.id in evidence.cancelled, evidence.versions.get(order.id)
        expected = expected_states(order, is_cancelled=is_cancelled, version=version)
        if state not in expected:
            what = f"ended {state}, and was to be {' or '.join(sorted(expected))}"
            found.append(Violation(Invariant.UNHARMED, order.id, what))
    for task, versions in evidence.journal.items():
        if any(version.failures for version in versions):
            found.append(Violation(Invariant.UNHARMED, task, "was recovered, though nothing went wrong"))
    return found


def shrunk(failed: Verdict, without: Sequence[SimulatedFault]) -> tuple[Verdict, list[SimulatedFault]]:
    """Give the run with the fewest kinds that was found, and what it is without."""
    wanted = {each.invariant for each in failed.violations}
    left_out, smallest = list(without), failed
    for kind in sorted(FaultPlan.drawn(failed.seed, without).kinds):
        tried = run_seed(failed.seed, without=[*left_out, kind])
        if wanted & {each.invariant for each in tried.violations}:
            left_out, smallest = [*left_out, kind], tried
    return smallest, left_out
