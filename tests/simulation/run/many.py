"""Runs many seeds, in this process or in others."""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from functions.machine import collect_garbage_rarely
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.points.pairs import run_pair
from tests.simulation.run.figures import Figures
from tests.simulation.run.shrinking import shrunk
from tests.simulation.run.story import Telling, told
from tests.simulation.run.verdict import run_seed

#: Seeds after which a process is replaced: FastAPI remembers each host's routes, and thereby all behind them.
_SEEDS_OF_A_PROCESS = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """How seeds are run; with `pairs`, they are numbers of two faults on a path."""

    calm: bool
    without: tuple[SimulatedFault, ...]
    telling: Telling
    shrink: bool
    pairs: bool


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a seed, and what is to be told of it, if anything."""

    figures: Figures
    told: str = ""


def ran(seeds: Sequence[int], asked: Asked, processes: int) -> Iterator[Ran]:
    """Run them in their order; few in this process."""
    run = partial(_run_pair if asked.pairs else _run, asked)
    if processes == 1 and len(seeds) <= _SEEDS_OF_A_PROCESS:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(
        processes, _prepare, maxtasksperchild=_SEEDS_OF_A_PROCESS
    ) as pool:
        yield from pool.imap(run, seeds)


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that adds up
    warnings.simplefilter("ignore")
    collect_garbage_rarely()


def _run(asked: Asked, seed: int) -> Ran:
    """Run one; tell the story of the tasks in question, of the smallest set of faults that does it."""
    verdict, without = run_seed(seed, calm=asked.calm, without=asked.without), [*asked.without]
    figures = verdict.figures
    if not (verdict.violations or asked.telling.always):
        return Ran(figures)
    if verdict.violations and asked.shrink and not asked.calm:
        verdict, without = shrunk(verdict, without)
    telling = replace(asked.telling, always=asked.telling.always or asked.shrink)
    return Ran(figures, told(verdict, without, telling, calm=asked.calm))


def _run_pair(_asked: Asked, number: int) -> Ran:
    verdict = run_pair(number)
    return Ran(verdict.figures(number), str(verdict) if verdict.violations else "")
