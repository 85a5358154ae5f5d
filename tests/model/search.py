"""A breadth-first search of all states, and the check that an end can be reached from each of them."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from functions.core.derive import derive
from tests.model.core import Core
from tests.model.moves import Moves, check_effects
from tests.model.state import State
from tests.model.workflows import Search


class Found(NamedTuple):
    """The figures of a search.

    `transitions` are pairs of different states. From `stuck` states no end can be reached without a fault
    and without an operator.
    """

    transitions: int
    states: int
    records: int
    ends: Mapping[str, int]
    stuck: int


def search(given: Search) -> Found:
    """Search all states. Raises `AssertionError` if a rule is violated."""
    core = Core(given.workflow)
    moves = Moves(core, given.refused)
    first = moves.first(given.left)
    numbers, waiting = {first: 0}, deque([first])
    before: defaultdict[int, list[int]] = defaultdict(list)
    ends: dict[int, str] = {}
    transitions = 0
    while waiting:
        state = waiting.popleft()
        number, record = numbers[state], core.records[state.record]
        check_effects(record, state.effects)
        if record.finished_at is not None:
            ends[number] = derive(record).state
        healed = {_number(each, numbers, waiting) for each in moves.without_faults(state)}
        faulty = {_number(each, numbers, waiting) for each in moves.with_faults(state)}
        transitions += len((healed | faulty) - {number})
        for each in healed:
            before[each].append(number)
    stuck = len(numbers) - _count_leading_to(ends, before)
    return Found(transitions, len(numbers), len(core.records), Counter(ends.values()), stuck)


def _number(state: State, numbers: dict[State, int], waiting: deque[State]) -> int:
    """Return the number of a state; a new state is searched later."""
    if state not in numbers:
        numbers[state] = len(numbers)
        waiting.append(state)
    return numbers[state]


def _count_leading_to(ends: Iterable[int], before: Mapping[int, Sequence[int]]) -> int:
    """Return the number of states from which one of the ends can be reached."""
    reached = set(ends)
    waiting = list(reached)
    while waiting:
        following = {each for each in before.get(waiting.pop(), ()) if each not in reached}
        reached.update(following)
        waiting += following
    return len(reached)
