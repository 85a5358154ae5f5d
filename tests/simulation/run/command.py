"""Runs seeds and tells what came of them; a failed one is told as a story, and shrunk."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from functools import partial

from tests.simulation.points.one_fault import count_points
from tests.simulation.points.paths import SamplePath
from tests.simulation.run import arguments
from tests.simulation.run.figures import KeptFigures, What
from tests.simulation.run.many import Asked, Ran, ctrl_c_deferred, pair_ran, point_ran, ran, seed_ran
from tests.simulation.run.report import Report
from tests.simulation.run.story import Telling

_STOPPED = 130


def main(given_arguments: Sequence[str]) -> int:
    """Run what the command line says; 0 only when nothing is violated, 130 when it was stopped."""
    given = arguments.read(given_arguments)
    report = Report(arguments.what_is_run(given))
    is_stopped = False
    try:
        with ctrl_c_deferred():
            _run(given, report)
    except KeyboardInterrupt:
        is_stopped = True
    if report.cpu:
        print(report)
    if is_stopped:
        print("stopped" if given.keep is None else f"stopped; what was run is kept in {given.keep}")
        return _STOPPED
    lacking = report.vacuous if given.whole else []
    if lacking:
        print(f"proves nothing, as too seldom there were: {', '.join(lacking)}")
    return 1 if report.violated or lacking else 0


def _run(given: argparse.Namespace, report: Report) -> None:
    for each in _ran(given, report):
        report.add(each.figures)
        if each.told:
            print(each.told, flush=True)
        if each.figures.violations and given.stop:
            break
    for path in given.path:
        report.violated += _points(path, given.processes)


def _ran(given: argparse.Namespace, report: Report) -> Iterator[Ran]:
    """Run the seeds, except those whose figures are kept: these are added to the report at once."""
    kept = None if given.keep is None else KeptFigures(given.keep, report.what)
    known = {} if kept is None else kept.known()
    seeds = [*range(given.first, given.first + (given.count or 0))]
    seeds += given.seed
    for seed in seeds:
        if seed in known:
            report.add(known[seed])
            report.kept += 1
    telling = Telling(always=given.story, task=given.task, uncut=given.all)
    asked = Asked(given.calm, tuple(given.without), telling, given.shrink)
    run = pair_ran if report.what is What.PAIRS else partial(seed_ran, asked)
    ends_at = time.monotonic() + 60 * given.minutes
    for each in ran(run, [seed for seed in seeds if seed not in known], given.processes):
        if kept is not None:
            kept.keep(each.figures)
        yield each
        if time.monotonic() > ends_at:
            break


def _points(path: SamplePath, processes: int) -> list[int]:
    """Run a path with one fault at each request; give the numbers of the points that violated something."""
    points, done, violated = range(count_points(path)), 0, list[int]()
    try:
        for each in ran(partial(point_ran, path), points, processes):
            done += 1
            if each.told:
                print(each.told, flush=True)
                violated.append(each.figures.seed)
    finally:
        which = f"{done} of {len(points)} runs, each with one fault at one request"
        print(f"{path}: {which}; {len(violated)} violated", flush=True)
    return violated
