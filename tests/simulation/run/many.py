"""Runs many seeds, or points of a path, in this process or in others."""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.pool import IMapIterator

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
_SECONDS_BETWEEN_LOOKS = 0.1


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
        for number in numbers:
            with _sigint(signal.SIG_UNBLOCK):
                each = run(number)
            yield each
        return
    with multiprocessing.get_context("spawn").Pool(
        processes, _prepare, maxtasksperchild=_SEEDS_OF_A_PROCESS
    ) as pool:
        yield from _until_ctrl_c(pool.imap(run, numbers))


def _until_ctrl_c(results: IMapIterator[Ran]) -> Iterator[Ran]:
    while signal.SIGINT not in signal.sigpending():
        try:
            each = results.next(timeout=_SECONDS_BETWEEN_LOOKS)
        except multiprocessing.TimeoutError:
            continue
        except StopIteration:
            return
        yield each
    raise KeyboardInterrupt


@contextmanager
def ctrl_c_deferred() -> Iterator[None]:
    """Block SIGINT in this thread, and in the threads and processes that it starts, unless it is ignored.

    `ran` raises KeyboardInterrupt between two results. A SIGINT that is pending at the end raises it, too.
    An unblocked SIGINT ends a process that still imports modules, with a traceback. In the main process,
    pydantic replaces a KeyboardInterrupt by PydanticSerializationError.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
        yield
        return
    resource_tracker.ensure_running()  # its start unblocks SIGINT
    with _sigint(signal.SIG_BLOCK):
        yield


@contextmanager
def _sigint(how: signal.Sigmasks) -> Iterator[None]:
    before = signal.pthread_sigmask(how, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare() -> None:
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
