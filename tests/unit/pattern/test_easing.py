"""Who is late in a crowd has more time, then its turn; nothing of that counts, and all of it ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.crowds import Behind, CrowdCause, CrowdPolicy
from functions.pattern.easing import may_be_extended, more_time, turn
from functions.pattern.events import Extended, Resumed
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import EpochEnd, ProcessState, Remedy
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.transitions import apply
from tests.fakes.interventions import giving_up as giving
from tests.fakes.interventions import recovered, resubmission, supervised
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, trip

CROWD = Behind("Agent pay", CrowdCause.NO_REPLY, blocked=True)
RUNNING = told(pending(LINE), claimed(), started(LINE.steps[0].name, complete_by=20))
LATE = after(36)


def _extended(record: TaskRecord, now: datetime, policy: SupervisionPolicy = POLICY) -> TaskRecord:
    return told(record, more_time(record, CROWD, now, policy), now=now)


def test_extension_changes_nothing_but_the_time() -> None:
    """Its Scheduler keeps it; no request is replaced, nobody is told, nothing counts."""
    extended = _extended(RUNNING, LATE)
    extension = extended.task.extended
    assert extension is not None
    assert (extension.times, extension.asked, extension.behind, extension.cause) == (
        1,
        0,
        "Agent pay",
        "no reply",
    )
    assert extended.task.complete_by == extended.task.due_at == extension.until
    assert (extended.task.is_extended, extended.task.failure_count, extended.task.epoch) == (True, 0, FIRST)
    assert (extended.task.locked_by, extended.steps) == (RUNNING.task.locked_by, RUNNING.steps)
    assert not starts_scheduler(RUNNING, extended)
    assert announcements(RUNNING, extended) == ()
    assert isinstance(apply(extended, more_time(extended, CROWD, LATE, POLICY), LATE), Refused)


def test_extended_task_goes_on_as_if_nothing_had_been() -> None:
    """A Scheduler that was only slow claims it, and its complete-by is its own again."""
    waiting = _extended(pending(LINE), LATE)
    held = told(waiting, claimed(start_by=60), now=after(40))
    assert (held.task.process_state, held.task.is_extended) == (ProcessState.PROCESSING, False)


def test_waits_grow_and_differ_from_task_to_task() -> None:
    """By up to a quarter: so they do not come back together."""
    policy = replace(POLICY, extended_waits=(timedelta(seconds=40), timedelta(seconds=80)))
    tasks = [pending(LINE, TaskId(f"task-{number}")) for number in range(50)]
    first = [_waited(_extended(task, LATE, policy)) for task in tasks]
    assert all(40 <= wait <= 50 for wait in first)
    assert len({round(wait, 3) for wait in first}) > 40
    later = _extended(tasks[0], LATE, policy)
    for _ in range(2):
        assert later.task.complete_by is not None
        now = later.task.complete_by + POLICY.skew
        later = _extended(later, now, policy)
        assert later.task.complete_by is not None
        assert 80 <= (later.task.complete_by - now).total_seconds() <= 100


def test_without_waits_the_pick_up_limit_is_one() -> None:
    """A setting may leave them out."""
    assert 30 <= _waited(_extended(pending(LINE), LATE, replace(POLICY, extended_waits=()))) <= 37.5


def _waited(record: TaskRecord) -> float:
    assert record.task.complete_by is not None
    return (record.task.complete_by - LATE).total_seconds()


def test_place_in_line_decides_when_many_may_go_on() -> None:
    """At six hundred a minute, number fifty waits five seconds."""
    assert more_time(RUNNING, CROWD, LATE, POLICY, place=50).until == after(41)


@given(st.lists(st.floats(0.1, 40_000), max_size=30))
def test_all_extensions_of_a_task_end(pauses: list[float]) -> None:
    """However late the Supervisor comes: after a day in all, it is overdue like any other."""
    policy = replace(POLICY, extended_waits=(timedelta(hours=5),))
    record, now = pending(LINE), LATE
    for pause in pauses:
        if not may_be_extended(record, policy):
            break
        record = _extended(record, now, policy)
        assert record.task.complete_by is not None
        now = record.task.complete_by + timedelta(seconds=pause)
    extension = record.task.extended
    assert extension is None or extension.seconds <= 86_400
    assert len(pauses) < 5 or not may_be_extended(record, policy)
    assert record.task.failure_count == 0


def test_after_them_it_is_recovered_and_counted() -> None:
    """Also when others still wait with it."""
    policy = replace(POLICY, crowd=CrowdPolicy(longest=timedelta(seconds=10)))
    extended = _extended(RUNNING, LATE, policy)
    assert not may_be_extended(extended, policy)
    verdict = judge(extended, after(60), policy)
    assert verdict is not None
    assert told(extended, verdict, now=after(60)).task.failure_count == 1


def test_task_that_nobody_has_claimed_is_asked_for_again_in_its_epoch() -> None:
    """As often as its turn comes; each time it is another request."""
    record = pending(LINE)
    for asked in (1, 2):
        now = after(36 + 400 * asked)
        event = turn(record, CROWD, now, POLICY, in_crowd=True)
        assert isinstance(event, Extended)
        again = told(record, event, now=now)
        assert again.task.extended is not None
        assert (again.task.extended.asked, again.task.epoch, again.task.failure_count) == (asked, FIRST, 0)
        assert starts_scheduler(record, again)
        record = again


def test_request_is_refused_when_a_scheduler_came_first() -> None:
    """It holds the task by now, and was late itself."""
    event = turn(pending(LINE), CROWD, LATE, POLICY, in_crowd=True)
    assert apply(RUNNING, event, LATE) == Refused(RefusalReason.NOT_OVERDUE)


def test_task_that_a_scheduler_held_goes_on_in_the_next_epoch_uncounted() -> None:
    """The epoch keeps out whoever held it; what crowds have cost it stays known."""
    extended = _extended(RUNNING, LATE)
    assert extended.task.complete_by is not None
    now = extended.task.complete_by + POLICY.skew
    event = turn(extended, CROWD, now, POLICY, in_crowd=True)
    assert isinstance(event, Resumed)
    assert (event.epoch, event.start_by) == (FIRST, now + POLICY.start_within)
    resumed = told(extended, event, now=now)
    assert (resumed.task.epoch, resumed.task.failure_count) == (SECOND, 0)
    assert resumed.history[-1].ended_by is EpochEnd.RESUMED
    assert extended.task.extended is not None
    lost = extended.task.extended.seconds + POLICY.start_within.total_seconds()
    assert resumed.task.extended == replace(extended.task.extended, seconds=lost, at=now)
    assert not resumed.task.is_extended
    assert starts_scheduler(extended, resumed)


def test_one_of_few_gets_another_scheduler_instead_of_another_request() -> None:
    """The one that was asked for may hang."""
    extended = _extended(pending(LINE), LATE)
    assert isinstance(turn(extended, CROWD, after(200), POLICY, in_crowd=False), Resumed)


def test_operator_gives_it_all_its_extensions_again() -> None:
    """As all its recoveries; a recovery does not."""
    policy = replace(POLICY, crowd=CrowdPolicy(longest=timedelta(seconds=10)))
    extended = _extended(pending(trip(remedy=Remedy.HOLD)), LATE, policy)
    counted = recovered(extended)
    assert counted.task.extended == extended.task.extended
    held = supervised(counted, giving(SECOND))
    assert told(held, resubmission(SECOND)).task.extended is None


def test_what_is_known_of_its_end_comes_first() -> None:
    """All was done meanwhile: it needs no more time."""
    done = told(RUNNING, completed(LINE.steps[0].name))
    assert isinstance(apply(done, more_time(RUNNING, CROWD, after(20), POLICY), after(20)), Refused)
