"""Many alerts of one cause become one with a count; none is forgotten, and other causes are not held up."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.alert_groups import (
    WINDOW,
    AlertGroup,
    after_telling,
    due,
    joined,
    read_groups,
    written_groups,
)
from tests.fakes.tasks import after

SINGLY = 3


def _alert(reason: str = "pay: no money", seconds: float = 0) -> AlertGroup:
    return AlertGroup(workflow="orders", state="Error", reason=reason, since=after(seconds))


def _after(*alerts: AlertGroup) -> tuple[tuple[AlertGroup, ...], list[bool]]:
    groups, alone = tuple[AlertGroup, ...](), []
    for number, each in enumerate(alerts):
        groups, is_alone = joined(groups, each, f"task-{number}", SINGLY)
        alone.append(is_alone)
    return groups, alone


def test_first_alerts_of_a_cause_are_told_at_once_and_the_others_together() -> None:
    """With their count, and the ids of some; another cause has its own first ones."""
    groups, alone = _after(*[_alert()] * 5, _alert("pay: no card"))
    assert alone == [True] * 3 + [False] * 2 + [True]
    assert due(groups, after(299.9)) == ()
    [group] = due(groups, after(300))
    assert (group.told, group.waiting, group.named) == (3, 2, ("task-3", "task-4"))


def test_time_begins_anew_when_a_group_was_told() -> None:
    """A storm that goes on is told once in each five minutes; what came meanwhile is in the next."""
    groups, _ = _after(*[_alert()] * 5)
    [told] = due(groups, after(300))
    groups, alone = joined(groups, _alert(seconds=301), "task-9", SINGLY)
    assert not alone
    [left] = after_telling(groups, told, after(302))
    assert (left.waiting, left.named, left.since) == (1, ("task-9",), after(302))
    assert due((left,), after(601)) == ()
    assert due((left,), after(602)) == (left,)
    [alone_again] = after_telling((left,), left, after(602))
    groups, is_alone = joined((alone_again,), _alert(seconds=602 + 300), "task-10", SINGLY)
    assert (is_alone, len(groups)) == (True, 1)


def test_two_tellers_forget_nothing() -> None:
    """The second has told the same; what it would take away is gone already, and what came since is not."""
    groups, _ = _after(*[_alert()] * 5)
    [told] = due(groups, after(300))
    once = after_telling(groups, told, after(300))
    assert after_telling(once, told, after(301)) == once
    for number in range(told.waiting):
        once, _ = joined(once, _alert(seconds=301), f"later-{number}", SINGLY)
    assert after_telling(once, told, after(302)) == once


def test_what_is_kept_is_bounded() -> None:
    """Of a hundred causes; more are told singly, and of many tasks some are named."""
    groups, alone = _after(*(_alert(f"cause {number}") for number in range(120)))
    assert (len(groups), all(alone)) == (100, True)
    groups, _ = _after(*[_alert()] * 500)
    [group] = groups
    assert (group.waiting, len(group.named)) == (497, 20)


@given(st.lists(st.tuples(st.integers(0, 900), st.sampled_from(["a", "b"])), max_size=60))
def test_every_alert_is_told_once(arrivals: list[tuple[int, str]]) -> None:
    """Alone, or in a group, whenever it comes; and the row comes back as it was written."""
    groups, alone, together = tuple[AlertGroup, ...](), 0, 0
    for number, (seconds, reason) in enumerate(sorted(arrivals)):
        for each in due(groups, after(seconds)):
            together += each.waiting
            groups = after_telling(groups, each, after(seconds))
        groups, is_alone = joined(groups, _alert(reason, seconds), f"task-{number}", SINGLY)
        alone += is_alone
        assert read_groups(written_groups(groups)) == groups
    end = after(2_000) + WINDOW + timedelta(seconds=1)
    assert alone + together + sum(each.waiting for each in due(groups, end)) == len(arrivals)


def test_damaged_row_is_forgotten() -> None:
    """Its alerts stand in the log."""
    assert read_groups(b"{") == read_groups(None) == ()
    naive = b'[{"workflow": "w", "state": "Error", "reason": "r", "since": "2026-11-21T10:00:00"}]'
    assert read_groups(naive) == ()
