"""Runs many seeds, or points of a path, in this process or in others."""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import track

from functions.machine import collect_garbage_rarely
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.points.one_fault import PointVerdict, run_pair, run_point
from tests.simulation.points.paths import SamplePath
from tests.simulation.run.figures import Figures
from tests.simulation.run.story import Telling, told
from tests.simulation.run.verdict import run_seed, shrunk

#: Seeds after which a process is replaced: FastAPI remembers each host's routes, and thereby all behind them.
_SEEDS_OF_A_PROCESS = 50
#: Of fewer, no progress is shown.
_FEW = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """How seeds are run."""

    calm: bool
    without: tuple[SimulatedFault, ...]
    telling: Telling
    shrink: bool


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a seed, and what is to be told of it, if anything."""

    figures: Figures
    told: str = ""


def ran(run: Callable[[int], Ran], numbers: Sequence[int], processes: int) -> Iterator[Ran]:
    """Run what has these numbers, in their order; on a terminal, a bar shows how far it is."""
    console = Console()
    yield from track(
        _ran(run, numbers, processes),
        "running",
        total=len(numbers),
        console=console,
        transient=True,
        disable=len(numbers) < _FEW or not console.is_terminal,
    )


def _ran(run: Callable[[int], Ran], numbers: Sequence[int], processes: int) -> Iterator[Ran]:
    if processes == 1 and len(numbers) <= _SEEDS_OF_A_PROCESS:
        yield from map(run, numbers)
        return
    with multiprocessing.get_context("spawn").Pool(
        processes, _prepare, maxtasksperchild=_SEEDS_OF_A_PROCESS
    ) as pool:
        yield from pool.imap(run, numbers)


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that adds up
    warnings.simplefilter("ignore")
    collect_garbage_rarely()


def seed_ran(asked: Asked, seed: int) -> Ran:
    """Run a seed; tell the story of the tasks in question, of the smallest set of faults that does it."""
    verdict, without = run_seed(seed, calm=asked.calm, without=asked.without), [*asked.without]
    figures = verdict.figures
    if not (verdict.violations or asked.telling.always):
        return Ran(figures)
    if verdict.violations and asked.shrink and not asked.calm:
        verdict, without = shrunk(verdict, without)
    telling = replace(asked.telling, always=asked.telling.always or asked.shrink)
    return Ran(figures, told(verdict, without, telling, calm=asked.calm))


def pair_ran(number: int) -> Ran:
    """Run the pair of faults that a number draws."""
    return _with_faults(run_pair(number), number)


def point_ran(path: SamplePath, number: int) -> Ran:
    """Run a point of a path."""
    return _with_faults(run_point(path, number), number)


def _with_faults(verdict: PointVerdict, number: int) -> Ran:
    return Ran(verdict.figures(number), str(verdict) if verdict.violations else "")
