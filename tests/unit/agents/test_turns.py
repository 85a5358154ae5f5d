"""Work without a place comes back about when there is one: not all at once, and not too late."""

from __future__ import annotations

from datetime import timedelta

from functions.agents.tries import Turns
from tests.fakes.chance import seeded
from tests.fakes.clock import START
from tests.fakes.tasks import after


def test_turns_follow_each_other_at_twice_the_pace() -> None:
    """Half of those who come find a place, and none stays empty."""
    turns = Turns(seeded(1))
    assert [turns.next(START, pace=2) for _ in range(4)] == [
        after(1 + 0.25 * number) for number in (1, 2, 3, 4)
    ]


def test_turns_begin_anew_when_the_last_has_passed() -> None:
    """A second from now at least."""
    turns = Turns(seeded(1))
    turns.next(START, pace=2)
    assert turns.next(after(100), pace=2) == after(101.25)


def test_nobody_waits_longer_than_a_minute() -> None:
    """However many wait: they are spread over the second half of it."""
    turns = Turns(seeded(1))
    times = [turns.next(START, pace=0) for _ in range(1_000)]
    assert max(times) <= after(60)
    late = times[60:]
    assert min(late) >= after(30)
    assert len(set(late)) == len(late)
    assert max(late) - min(late) > timedelta(seconds=25)
