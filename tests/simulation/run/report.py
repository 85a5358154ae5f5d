"""What is printed of many runs: their figures, added up."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.run.figures import Figures, What

_OUTCOMES = ("Processed", "Compensated", "Error")


#: What a run of many seeds must show, or it proves nothing: the least part of tasks with each outcome, the
#: least part of seeds in which each kind of faults had an effect, and in which a task was processed that was
#: drawn to be; and the graphs that were drawn.
_LEAST_OF_TASKS, _LEAST_OF_SEEDS, _LEAST_NORMAL, _WIDE, _DEEP = 0.05, 0.01, 0.95, 40, 10


@dataclass(slots=True)
class Report:
    """Adds up what came of seeds, or of pairs."""

    what: What = What.SEEDS
    #: How many of them were run before, and their figures kept.
    kept: int = 0
    cpu: list[float] = field(default_factory=list)
    violated: list[int] = field(default_factory=list)
    hours: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    #: In how many seeds each kind of fault had an effect.
    met: Counter[str] = field(default_factory=Counter)
    #: In how many seeds a task was processed.
    processed: int = 0
    widest: int = 0
    deepest: int = 0

    def add(self, figures: Figures) -> None:
        """Add one."""
        self.cpu.append(figures.cpu)
        self.hours += figures.seconds / 3_600
        self.outcomes.update(figures.outcomes)
        self.faults.update(figures.faults)
        self.met.update(figures.kinds)
        self.processed += "Processed" in figures.outcomes
        self.widest = max(self.widest, figures.widest)
        self.deepest = max(self.deepest, figures.deepest)
        if figures.violations:
            self.violated.append(figures.seed)

    @property
    def vacuous(self) -> list[str]:
        """Tell what happened too seldom for the run to prove anything (I14)."""
        seeds, tasks = len(self.cpu), self.outcomes.total()
        rare = [each for each in _OUTCOMES if self.outcomes[each] < _LEAST_OF_TASKS * tasks]
        rare += [each for each in SimulatedFault if self.met[each] < _LEAST_OF_SEEDS * seeds]
        rare += [] if self.processed >= _LEAST_NORMAL * seeds else ["seeds with a task that was processed"]
        small = [f"{_WIDE} steps wide"] if self.widest < _WIDE else []
        return [*rare, *small, *([f"{_DEEP} steps deep"] if self.deepest < _DEEP else [])]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        seeds, tasks = len(self.cpu), self.outcomes.total()
        yield f"CPU of each: median {statistics.median(self.cpu):.2f} s, most {max(self.cpu):.2f} s"
        yield f"virtual hours {self.hours:.1f}; faults {self.faults.total()}"
        yield f"a task was processed in {100 * self.processed / seeds:.1f} % of {self.what}"
        if self.widest:
            yield f"workflows up to {self.widest} steps wide and {self.deepest} deep"
        yield f"tasks {tasks}"
        for outcome, count in sorted(self.outcomes.items()):
            yield f"  {outcome:<12} {count:>6}  {100 * count / tasks:5.1f} %"
        if seeds > 1 and self.what is What.SEEDS:
            yield "kinds of faults that were drawn, and had an effect:"
            for kind in SimulatedFault:
                yield f"  {kind:<32} in {100 * self.met[kind] / seeds:5.1f} % of seeds"
        yield "single faults that had an effect:"
        for fault, count in sorted(self.faults.items()):
            yield f"  {fault:<32} {count:>7}"
        which = f": {', '.join(map(str, self.violated))}" if self.violated else ""
        kept = f" ({self.kept} of them run before)" if self.kept else ""
        yield f"{self.what} {seeds}{kept}, violated {len(self.violated)}{which}"
