"""Runs seeds and tells what came of them; a failed one is told as a story, and shrunk."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.points.one_fault import failures
from tests.simulation.points.paths import every_path
from tests.simulation.run.figures import KeptFigures
from tests.simulation.run.ledger import ledger
from tests.simulation.run.many import Asked, Ran, ran
from tests.simulation.run.report import Report


def main(arguments: Sequence[str]) -> int:
    """Run what the command line says; 0 only when nothing is violated."""
    given = _parser().parse_args(arguments)
    if given.ledger:
        print(ledger(each for folder in given.ledger for each in KeptFigures(folder).read()))
        return 0
    report = Report(calm=given.calm)
    for each in _ran(given, report):
        report.add(each.figures)
        if each.told:
            print(each.told, flush=True)
        if each.figures.violations and given.stop:
            break
    for name in given.path:
        report.violated += _points(name)
    print(report)
    lacking = report.vacuous if given.whole else []
    if lacking:
        print(f"proves nothing, as too seldom there were: {', '.join(lacking)}")
    return 1 if report.violated or lacking else 0


def _ran(given: argparse.Namespace, report: Report) -> Iterator[Ran]:
    """Run the seeds, except those whose figures are kept: these are added to the report at once."""
    kept = None if given.keep is None else KeptFigures(given.keep)
    known = {} if kept is None else kept.known()
    seeds = [*range(given.first, given.first + given.count)]
    seeds += [] if given.seed is None else [given.seed]
    for seed in seeds:
        if seed in known:
            report.add(known[seed])
    asked = Asked(given.calm, tuple(given.without), given.story, given.shrink, given.pairs)
    ends_at = time.monotonic() + 60 * given.minutes
    for each in ran([seed for seed in seeds if seed not in known], asked, given.processes):
        if kept is not None:
            kept.keep(each.figures)
        yield each
        if time.monotonic() > ends_at:
            break


def _points(name: str) -> list[int]:
    """Run a path with one fault at each request; give the numbers of the requests that did harm."""
    [path] = [each for each in every_path() if str(each) == name]
    harmful = []
    for verdict in failures(path):
        print(verdict)
        harmful += list(verdict.mishaps)
    return harmful


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--first", type=int, default=0, help="the first of several")
    parser.add_argument("--count", type=int, default=0, help="how many seeds from there on")
    parser.add_argument(
        "--calm", action="store_true", help="nothing goes wrong, and all ends as it was drawn"
    )
    parser.add_argument("--story", action="store_true", help="tell what happened, also when nothing is wrong")
    parser.add_argument("--stop", action="store_true", help="at the first violation")
    parser.add_argument("--keep", type=Path, help="a folder for figures; seeds that are there are not run")
    parser.add_argument(
        "--ledger",
        type=Path,
        action="append",
        default=[],
        help="print what the figures in a folder add up to",
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="end after so many")
    parser.add_argument("--processes", type=int, default=1, help="seeds that run at once")
    parser.add_argument("--whole", action="store_true", help="fail also if too little happened in the run")
    parser.add_argument("--path", action="append", default=[], help="one fault at each request of a path")
    parser.add_argument("--pairs", action="store_true", help="two faults on a path, which each number draws")
    parser.add_argument("--shrink", action="store_true", help="leave out faults as long as a failure stays")
    parser.add_argument(
        "--without", type=SimulatedFault, action="append", default=[], help="leave out a kind of faults"
    )
    return parser
