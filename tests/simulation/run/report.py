"""What is printed of runs: figures of all, and the story of one that failed."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation.faults.kinds import FaultPlan, SimulatedFault
from tests.simulation.run.verdict import Verdict

_MOST_LINES = 400


@dataclass(slots=True)
class Report:
    """Adds up what came of seeds."""

    calm: bool
    seeds: int = 0
    violated: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    hours: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    #: In how many seeds each kind of fault had an effect.
    met: Counter[str] = field(default_factory=Counter)
    widest: int = 0

    def add(self, verdict: Verdict) -> None:
        """Add one."""
        self.seeds += 1
        self.cpu.append(verdict.cpu)
        self.hours += verdict.seconds / 3_600
        self.outcomes.update(verdict.outcomes)
        self.faults.update(verdict.timeline.faults)
        self.met.update(verdict.timeline.faults.keys())
        self.widest = max(self.widest, verdict.widest)
        if verdict.violations:
            self.violated.append(verdict.seed)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if not self.seeds:
            return
        yield f"seeds {self.seeds}, violated {len(self.violated)}: {self.violated}"
        yield f"CPU of a seed: median {statistics.median(self.cpu):.2f} s, most {max(self.cpu):.2f} s"
        yield f"virtual hours {self.hours:.1f}; faults {self.faults.total()}; widest workflow {self.widest}"
        tasks = self.outcomes.total()
        for outcome, count in sorted(self.outcomes.items()):
            yield f"  {outcome:<12} {count:>6}  {100 * count / tasks:5.1f} %"
        for fault, seeds in sorted(self.met.items()):
            yield f"  {fault:<32} {self.faults[fault]:>6}  in {100 * seeds / self.seeds:5.1f} % of seeds"


def told(verdict: Verdict, without: Sequence[SimulatedFault], *, calm: bool, story: bool) -> str:
    """Tell what is wrong in a run, how to repeat it, and what befell the tasks in question."""
    options = "".join(f" --without '{kind}'" for kind in without)
    repeat = f"make simulate SEED={verdict.seed}" + (" CALM=1" if calm else "")
    lines = [f"seed {verdict.seed} ({verdict.timeline.digest}): {repeat}"]
    if options:
        kinds = ", ".join(sorted(FaultPlan.drawn(verdict.seed, without).kinds))
        lines.append(f"  also with {kinds} alone: python -m tests.simulation --seed {verdict.seed}{options}")
    lines += [f"  {each.invariant.number} {each.order}: {each.what}" for each in verdict.violations]
    if story:
        lines += _story(verdict)
    return "\n".join(lines)


def _story(verdict: Verdict) -> list[str]:
    tasks = {each.order for each in verdict.violations if each.order is not None}
    named = [text for task in sorted(tasks) for text in (f"{task}|", f"{task}.", f"/{task}")]
    moments = verdict.timeline.about(*named) if named else verdict.timeline.moments
    return [str(moment)[:260] for moment in moments][:_MOST_LINES]
