"""Searches all states, breadth first, to the last; then, whether an end can be reached from each of them."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from functions.pattern.definition import Workflow
from functions.pattern.epochs import FINAL
from tests.model.core import Core
from tests.model.moves import Moves
from tests.model.rules import check_effects
from tests.model.state import Left, State


@dataclass(frozen=True, slots=True)
class Found:
    """What the search has seen.

    An edge leads from one state to another, and counts once, whatever moves lead along it. From `stuck`
    states no end can be reached, though nothing goes wrong.
    """

    edges: int
    states: int
    records: int
    ends: Mapping[str, int]
    stuck: int
    seconds: float

    def __str__(self) -> str:
        ends = ", ".join(f"{count} in {state}" for state, count in sorted(self.ends.items()))
        figures = f"{self.edges:,} edges, {self.states:,} states ({ends}), {self.records:,} records of a task"
        return f"{figures}, {self.seconds:.0f} s of CPU"


def search(workflow: Workflow, refused: str, left: Left) -> Found:
    """Search. Raises `AssertionError` where an invariant is violated."""
    begin, core = time.process_time(), Core(workflow)
    moves = Moves(core, refused)
    first = moves.first(left)
    numbers, waiting = {first: 0}, deque([first])
    before: defaultdict[int, list[int]] = defaultdict(list)
    ends: dict[int, str] = {}
    edges = 0
    while waiting:
        state = waiting.popleft()
        number, record = numbers[state], core.records[state.record]
        check_effects(record, state.effects)
        if record.task.process_state in FINAL:
            ends[number] = record.task.process_state
        healed = list(moves.without_faults(state))
        after = {_number(each, numbers, waiting) for each in (*healed, *moves.with_faults(state))}
        edges += len(after - {number})
        for each in healed:
            before[numbers[each]].append(number)
    stuck = len(numbers) - _count_leading_to(ends, before)
    seconds = time.process_time() - begin
    return Found(edges, len(numbers), len(core.records), Counter(ends.values()), stuck, seconds)


def _number(state: State, numbers: dict[State, int], waiting: deque[State]) -> int:
    """Give a state's number; a new one waits for its turn."""
    if state not in numbers:
        numbers[state] = len(numbers)
        waiting.append(state)
    return numbers[state]


def _count_leading_to(ends: Iterable[int], before: Mapping[int, Sequence[int]]) -> int:
    """Count the states from which one of the ends can be reached."""
    reached = set(ends)
    waiting = list(reached)
    while waiting:
        following = [each for each in before.get(waiting.pop(), ()) if each not in reached]
        reached.update(following)
        waiting += following
    return len(reached)
