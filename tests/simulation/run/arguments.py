"""What the command line of the simulation takes, and what it refuses."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from local.arguments import count, positive
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.points.paths import SamplePath, every_path
from tests.simulation.run.figures import What

_PATHS = "; ".join(map(str, every_path()))
#: Options that do not go together, and why.
_EXCLUSIVE = (
    ("seed", "count", "--seed names each seed, --first the first of several"),
    ("seed", "path", "--seed is of seeds, and a path is run whole"),
    ("count", "path", "--count is of seeds, and a path is run whole"),
    ("pairs", "path", "--pairs draws its paths"),
    ("pairs", "calm", "--pairs is of faults"),
    ("pairs", "without", "--pairs draws its faults"),
    ("keep", "path", "figures are kept of seeds and pairs"),
    ("keep", "without", "figures are kept of seeds as they are drawn"),
)
#: Of options that may be given again.
_LISTED: Mapping[str, Any] = {"action": "append", "default": []}


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the arguments; where they are wrong, or there is nothing to run, end with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Runs seeds and tells what came of them; a failed one is told as a story.",
    )
    _add_runs(parser)
    _add_story(parser)
    parser.add_argument("--whole", action="store_true", help="fail also if too little happened in the run")
    parser.add_argument("--stop", action="store_true", help="at the first violation")
    parser.add_argument("--minutes", type=positive, default=math.inf, help="end after so many")
    parser.add_argument("--processes", type=positive, default=1, help="seeds that run at once (default: 1)")
    given = parser.parse_args(arguments)
    if not (given.seed or given.count or given.path):
        parser.error("nothing to run: give --seed, --count or --path")
    for one, other, why in _EXCLUSIVE:
        if _is_given(given, one) and _is_given(given, other):
            parser.error(f"{why}: leave out --{other}")
    return given


def what_is_run(given: argparse.Namespace) -> What:
    """Name what a number stands for."""
    if given.pairs:
        return What.PAIRS
    return What.CALM if given.calm else What.SEEDS


def _is_given(given: argparse.Namespace, option: str) -> bool:
    value = getattr(given, option)
    return value is not None and value is not False and value != []


def _add_runs(parser: argparse.ArgumentParser) -> None:
    runs = parser.add_argument_group("what is run")
    runs.add_argument("--seed", type=count, nargs="+", default=[], help="seeds by their numbers")
    runs.add_argument("--first", type=count, default=0, help="the first of several (default: 0)")
    runs.add_argument("--count", type=count, help="how many seeds from there on")
    runs.add_argument("--calm", action="store_true", help="nothing goes wrong, and all ends as it was drawn")
    runs.add_argument("--without", type=_fault, help="leave out a kind, such as 'crashes'", **_LISTED)
    runs.add_argument("--path", type=_path, help=f"one fault at each request of a path: {_PATHS}", **_LISTED)
    runs.add_argument("--pairs", action="store_true", help="two faults on a path, which each number draws")
    runs.add_argument("--keep", type=Path, help="a folder for figures; seeds that are there are not run")


def _add_story(parser: argparse.ArgumentParser) -> None:
    story = parser.add_argument_group("what is told")
    story.add_argument("--story", action="store_true", help="what happened, also when nothing is violated")
    story.add_argument("--task", help="in the story, this task only, such as t1")
    story.add_argument("--all", action="store_true", help="the whole story, not its first 400 lines")
    story.add_argument("--shrink", action="store_true", help="leave out kinds of faults while it still fails")


def _fault(text: str) -> SimulatedFault:
    if text not in SimulatedFault:
        raise argparse.ArgumentTypeError(f"{text!r} is no kind of faults: {', '.join(SimulatedFault)}")
    return SimulatedFault(text)


def _path(text: str) -> SamplePath:
    for path in every_path():
        if str(path) == text:
            return path
    raise argparse.ArgumentTypeError(f"{text!r} is none of the paths: {_PATHS}")
