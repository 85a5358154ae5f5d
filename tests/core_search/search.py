"""Run seeds, and summarise their violations and their coverage."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from unittest.mock import patch

from functions.supervisor import task_sweep
from tests.core_search import course
from tests.core_search.checks import ViolationError
from tests.core_search.virtual_time import JumpingLoop
from tests.core_search.world import DefectHandler, World

_STORY_LINES = 120
#: Tasks of one page of a sweep: a sweep without a cursor does not pass a corrupt row.
_PAGE = 1


def run_seed(seed: int) -> World:
    """Run one seed. Raises `ViolationError` with the end of its story."""
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
            loop.run_until_complete(course.run(world))
    except ViolationError as violation:
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


def search(first: int, count: int, *, has_story: bool = False) -> int:
    """Run `count` seeds, print a summary, and return the number of violated seeds."""
    violated, tasks, faults, covered = 0, 0, Counter[str](), Counter[str]()
    began = time.process_time()
    for seed in range(first, first + count):
        try:
            world = run_seed(seed)
        except ViolationError as violation:
            violated += 1
            story = "\n".join(violation.__notes__) if has_story else ""
            print(f"seed {seed}: {violation}\n{story}".rstrip())
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
