"""Crowds last while many are late in them, begin once, and end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.crowds import CrowdCause
from functions.pattern.known_crowds import Crowd, after_sweep
from functions.pattern.records import Extension, TaskRecord
from functions.pattern.states import Way
from tests.fakes.tasks import after, pending
from tests.fakes.workflows import step, workflow


def _crowd(tasks: int = 30, *, since: float = 0, found: float = 60, until: float = 60) -> Crowd:
    return Crowd(
        behind="Agent pay",
        cause=CrowdCause.NO_REPLY,
        since=after(since),
        tasks=tasks,
        found_at=after(found),
        until=after(until),
        met=tasks,
    )


def test_crowd_begins_once_and_lasts_while_tasks_wait_in_it() -> None:
    """It ends when nothing of it was found for a while after the last extension's end."""
    first = after_sweep((), (_crowd(until=200),), after(60), 20)
    begun = replace(_crowd(until=200), span_since=after(60), span_until=after(200))
    assert (first.known, first.begun, first.ended) == ((begun,), (begun,), ())
    again = after_sweep(first.known, (_crowd(40, since=30, found=90, until=90),), after(90), 20)
    more = replace(begun, tasks=40, found_at=after(90), met=70)
    assert (again.known, again.begun, again.ended) == ((more,), (), ())
    fewer = after_sweep(again.known, (replace(_crowd(10, found=90, until=90), turns=10),), after(90), 20)
    assert [each.tasks for each in fewer.known] == [30]
    quiet = after_sweep(again.known, (), after(320), 20)
    assert (quiet.known, quiet.ended) == (again.known, ())
    over = after_sweep(quiet.known, (), after(320.1), 20)
    assert (over.known, over.begun, over.ended) == ((), (), again.known)


@pytest.mark.parametrize(("due", "left"), [(300, 19_700), (3, 198), (400, 19_600)])
def test_tasks_of_a_line_that_went_on_by_themselves_do_not_count_on(due: int, left: int) -> None:
    """Of 20,000 in line for 33 minutes, 300 come due in 30 seconds; if only a few do, only a few are left."""
    known = (_crowd(20_000, found=0, until=1_980),)
    found = replace(_crowd(due, found=30, until=30), turns=due)
    assert [each.tasks for each in after_sweep(known, (found,), after(60), 20).known] == [left]
    blocked = replace(found, blocked=True)  # these are not in line
    assert [each.tasks for each in after_sweep(known, (blocked,), after(60), 20).known] == [20_000 - due]


def test_crowd_that_a_long_sweep_has_found_is_not_over_at_its_end() -> None:
    """Its sweep took minutes: it would be told anew by the next one."""
    known = after_sweep((), (_crowd(),), after(60), 20).known
    found = after_sweep(known, (_crowd(found=90, until=90),), after(400), 20)
    assert (len(found.known), found.begun, found.ended) == (1, (), ())


def test_each_task_counts_and_the_oldest_tells_since_when() -> None:
    """And the whole time until each has had its turn."""
    crowd = replace(_crowd(tasks=0), since=after(50))
    crowd = crowd.with_task(after(9), after(300), blocked=True, had_turn=False).with_task(
        after(20), None, blocked=False, had_turn=True
    )
    assert (crowd.tasks, crowd.since, crowd.until) == (2, after(9), after(300))
    assert (crowd.blocked, crowd.turns) == (True, 1)
    assert [_crowd(tasks).minutes(600) for tasks in (1, 600, 601)] == [1, 1, 2]


def test_crowd_of_which_only_few_were_met_for_an_hour_is_none_any_more() -> None:
    """Each is met again and again, and counts once an hour: they would keep the crowd alive for ever."""
    crowds, sweeps = after_sweep((), (_crowd(),), after(60), 20).known, 0
    for second in range(90, 9_000, 30):
        has_met = any(each.has_met(_stuck(second - 30), after(second)) for each in crowds)
        few = replace(_crowd(3, found=second, until=second), met=0 if has_met else 3)
        sweeps += sum(each.is_many(20) for each in crowds)
        crowds = after_sweep(crowds, (few,), after(second), 20).known
    assert 120 <= sweeps <= 240, "in which they were taken for a crowd"


def test_crowd_that_is_many_again_begins_anew() -> None:
    """Operators are told of it, though a few of the one before were left."""
    [crowd] = after_sweep((), (_crowd(),), after(60), 20).known
    few = replace(crowd, met=1, met_before=2, tasks=2)
    again = after_sweep((few,), (_crowd(25, since=80, found=90),), after(90), 20)
    assert [each.tasks for each in again.begun] == [25]
    assert again.known == again.begun
    assert after_sweep((few,), (), after(90), 20).known == (few,)


@pytest.mark.parametrize("wait", [900, 3_000, 4 * 3_600])
def test_crowd_lasts_however_long_its_tasks_wait_between_two_looks(wait: int) -> None:
    """With waits of hours, in an outage of a day: each is met once in such a time, not in an hour."""
    due = {number: wait * (1 + number / 100) for number in range(25)}
    [crowd] = after_sweep((), (_crowd(25, until=60 + wait * 1.25),), after(60), 20).known
    met_at = dict.fromkeys(due, 60.0)
    for second in range(90, 24 * 3_600, 30):
        late = [number for number, at in due.items() if at <= second]
        if not late:
            continue
        assert crowd.is_many(20), f"after {second / 3_600:.1f} hours"
        new = [each for each in late if not crowd.has_met(_stuck(met_at[each]), after(second))]
        due |= {each: second + wait * (1 + each / 100) for each in late}
        met_at |= dict.fromkeys(late, second)
        found = replace(_crowd(len(late), found=second, until=max(due[each] for each in late)), met=len(new))
        [crowd] = after_sweep((crowd,), (found,), after(second), 20).known


def _stuck(at: float) -> TaskRecord:
    record = pending(workflow(step("pay", via=Way.QUEUE), name="paying"))
    extension = Extension(
        until=after(at), seconds=60, times=3, behind="Agent pay", cause="no reply", at=after(at)
    )
    return replace(record, task=replace(record.task, extended=extension))
