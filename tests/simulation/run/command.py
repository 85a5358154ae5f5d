"""Runs seeds, one after another, and tells what came of them; a failed one is told as a story, and shrunk."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.points.one_fault import failures
from tests.simulation.points.paths import every_path
from tests.simulation.run.figures import KeptFigures
from tests.simulation.run.report import Report, told
from tests.simulation.run.shrinking import shrunk
from tests.simulation.run.verdict import Verdict, run_seed


def main(arguments: Sequence[str]) -> int:
    """Run what the command line says; 0 only when nothing is violated."""
    given = _parser().parse_args(arguments)
    report = Report(calm=given.calm)
    kept = None if given.keep is None else KeptFigures(given.keep)
    known = {} if kept is None else {each.seed: each for each in kept.read()}
    ends_at = time.monotonic() + 60 * given.minutes
    for seed in _seeds(given):
        if seed in known:
            report.add(known[seed])
            continue
        if time.monotonic() > ends_at:
            break
        verdict = run_seed(seed, calm=given.calm, without=given.without)
        report.add(verdict.figures)
        if kept is not None:
            kept.keep(verdict.figures)
        if verdict.violations or given.story:
            _tell(verdict, given)
        if verdict.violations and given.stop:
            break
    for name in given.path:
        report.violated += _points(name)
    print(report)
    lacking = report.vacuous if given.whole else []
    if lacking:
        print(f"proves nothing, as too seldom there were: {', '.join(lacking)}")
    return 1 if report.violated or lacking else 0


def _tell(verdict: Verdict, given: argparse.Namespace) -> None:
    """Tell the story of the tasks in question, of the smallest set of faults that does it."""
    without: Sequence[SimulatedFault] = given.without
    if verdict.violations and given.shrink and not given.calm:
        verdict, without = shrunk(verdict, without)
    print(told(verdict, without, calm=given.calm, story=given.story or given.shrink))
    sys.stdout.flush()


def _points(name: str) -> list[int]:
    """Run a path with one fault at each request; give the numbers of the requests that did harm."""
    [path] = [each for each in every_path() if str(each) == name]
    harmful = []
    for verdict in failures(path):
        print(verdict)
        harmful += list(verdict.mishaps)
    return harmful


def _seeds(given: argparse.Namespace) -> Iterator[int]:
    if given.seed is not None:
        yield given.seed
    yield from range(given.first, given.first + given.count)


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
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no seed after so many")
    parser.add_argument("--whole", action="store_true", help="fail also if too little happened in the run")
    parser.add_argument("--path", action="append", default=[], help="one fault at each request of a path")
    parser.add_argument("--shrink", action="store_true", help="leave out faults as long as a failure stays")
    parser.add_argument(
        "--without", type=SimulatedFault, action="append", default=[], help="leave out a kind of faults"
    )
    return parser
