"""Run seeds in virtual time, and summarise their violations and their coverage."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import selectors
import sys
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from functions.supervisor import task_sweep
from tests.simulation import course
from tests.simulation.planted import PLANTED, planted
from tests.simulation.record_checks import ViolationError
from tests.simulation.world import DefectHandler, World

#: The first seed that sees each planted bug. `make simulate-planted` writes the file.
FIRST_SEEDS = Path(__file__).with_name("first_seeds.json")
_STORY_LINES = 120
#: Tasks of one page of a sweep: a sweep without a cursor does not pass a corrupt row.
_PAGE = 1


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer. Its time is in seconds from 0 on."""

    def __init__(self) -> None:
        self.virtual = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.virtual


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Advance the time to the next timer."""
        if timeout is None:
            raise AssertionError("no timer is left: the search would never end")
        self._loop.virtual += max(0.0, timeout)
        return []


def run_seed(seed: int, *, is_calm: bool = False, without: frozenset[str] = frozenset()) -> World:
    """Run one seed. Raises `ViolationError`.

    Faults of the names `without` do not happen; `is_calm`: no fault is drawn.
    """

    async def drawn(world: World) -> None:
        world.without = without
        world.intensity = 0.0 if is_calm else world.intensity
        await course.run(world)

    return run_course(seed, drawn)


def run_course(seed: int, run: Callable[[World], Awaitable[None]]) -> World:
    """Run a course in the world of a seed. Raises `ViolationError` with the end of the story."""
    loop = JumpingLoop()
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)
    world = World(seed)
    log, handler = logging.getLogger("functions"), DefectHandler(world)
    is_propagated, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        with warnings.catch_warnings(), patch.object(task_sweep, "_PAGE", _PAGE):
            warnings.simplefilter("ignore")  # a crash leaves coroutines that are never awaited
            loop.run_until_complete(run(world))
    except ViolationError as violation:
        violation.story, violation.faults = world.story, frozenset(world.faults)
        violation.add_note("\n".join(world.story[-_STORY_LINES:]))
        raise
    finally:
        log.removeHandler(handler)
        log.propagate = is_propagated
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        asyncio.set_event_loop(None)
    return world


def first_violation(seeds: Iterable[int]) -> tuple[int, str] | None:
    """Return the first seed with a violation or a defect, and its text."""
    for seed in seeds:
        try:
            run_seed(seed)
        except ViolationError as violation:
            return seed, str(violation)
    return None


def repeat(seed: int, *, task: str | None, is_calm: bool, is_shrunk: bool) -> int:
    """Repeat a seed, and print its story, or the lines of one task. Return 1 if it is violated.

    `is_shrunk`: leave out each kind of fault without which the seed is still violated.
    """
    violation = _violation_of(seed, is_calm=is_calm)
    without = frozenset[str]()
    for fault in sorted(violation.faults) if violation is not None and is_shrunk else ():
        fewer = _violation_of(seed, is_calm=is_calm, without=without | {fault})
        if fewer is not None:
            violation, without = fewer, without | {fault}
    story = run_seed(seed, is_calm=is_calm).story if violation is None else violation.story
    is_shown = re.compile(r"(?<!\w)" + re.escape(task or "") + r"(?!\w)|!!|\*\*").search
    print("\n".join(line for line in story if task is None or is_shown(line)))
    if without:
        print(f"not necessary: {', '.join(sorted(without))}")
    print(f"seed {seed}: {violation or 'no violation'}")
    return int(violation is not None)


def _violation_of(
    seed: int, *, is_calm: bool, without: frozenset[str] = frozenset()
) -> ViolationError | None:
    try:
        run_seed(seed, is_calm=is_calm, without=without)
    except ViolationError as violation:
        return violation
    return None


def search_planted(first: int, count: int) -> int:
    """Find the first of `count` seeds that sees each planted bug. Return the number of unseen bugs.

    The seeds are printed and recorded, so that the test of a bug begins with its seed.
    """
    seeds, unseen = json.loads(FIRST_SEEDS.read_text(encoding="utf-8")), 0
    for bug in PLANTED:
        with planted(bug):
            found = first_violation(range(first, first + count))
        unseen += found is None
        if found is not None:
            seeds[bug] = found[0]
        print(f"{bug}: " + ("not seen" if found is None else f"seed {found[0]}: {found[1]}"), flush=True)
    FIRST_SEEDS.write_text(json.dumps(seeds, indent=2) + "\n", encoding="utf-8")
    print(f"{len(PLANTED)} planted bugs, {unseen} not seen")
    return unseen


def search(first: int, count: int) -> int:
    """Run `count` seeds, print a summary, and return the number of violated seeds."""
    violated, tasks, faults, covered = 0, 0, Counter[str](), Counter[str]()
    began = time.process_time()
    for seed in range(first, first + count):
        try:
            world = run_seed(seed)
        except ViolationError as violation:
            violated += 1
            print(f"seed {seed}: {violation}")
            continue
        tasks += len(world.records)
        faults += world.faults
        covered += Counter(fact for _, fact in world.covered)
    seconds = time.process_time() - began
    per_task = faults.total() / max(1, tasks)
    summary = (
        f"{count} seeds, {tasks} tasks, {faults.total()} faults ({per_task:.1f} per task),"
        f" {violated} violated, {seconds:.0f} s CPU, {count / max(0.01, seconds):.1f} seeds/s"
    )
    print(summary, file=sys.stdout)
    print("faults:", ", ".join(f"{fault} {times}" for fault, times in faults.most_common()))
    print("tasks:", ", ".join(f"{fact} {times}" for fact, times in covered.most_common()))
    return violated
