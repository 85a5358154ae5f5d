"""Print the ledger of kept verdicts: runs, tasks and faults of each commit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.simulation.run.figures import Figures, What

_HEAD = (
    "| commit | runs | virtual hours | faults | Processed / Compensated / Error | violated |",
    "|---|---|---|---|---|---|",
)


def ledger(every: Iterable[Figures]) -> str:
    """Write a line for each commit and what was run of it, and below how often each fault happened."""
    runs: defaultdict[tuple[str, What], list[Figures]] = defaultdict(list)
    for figures in every:
        runs[figures.commit, figures.what].append(figures)
    lines = [*_HEAD, *(_line(commit, what, ran) for (commit, what), ran in runs.items())]
    return "\n".join([*lines, "", *_faults(each for ran in runs.values() for each in ran)])


def _line(commit: str, what: What, ran: Sequence[Figures]) -> str:
    outcomes = sum((Counter(each.outcomes) for each in ran), Counter[str]())
    tasks = " / ".join(f"{outcomes[each]:,}" for each in ("Processed", "Compensated", "Error"))
    hours = sum(each.seconds for each in ran) / 3_600
    faults = sum(sum(each.faults.values()) for each in ran)
    violated = ", ".join(str(each.seed) for each in ran if each.violations) or "none"
    runs = f"{commit or 'unknown'} | {len(ran):,} {what}"
    return f"| {runs} | {hours:,.0f} | {faults:,} | {tasks} | {violated} |"


def _faults(every: Iterable[Figures]) -> Iterator[str]:
    counts = sum((Counter(each.faults) for each in every), Counter[str]())
    yield "Faults that had an effect: " + ", ".join(
        f"{kind} {count:,}" for kind, count in counts.most_common()
    )
