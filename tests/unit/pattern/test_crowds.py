"""Tasks that are late together: the cause, the extensions, and the end of a crowd."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.crowds import (
    SCHEDULERS,
    Behind,
    CrowdCause,
    CrowdPolicy,
    Signs,
    behind,
    is_long,
    suspected,
)
from functions.pattern.easing import may_be_extended, more_time, turn
from functions.pattern.events import Extended, Resumed
from functions.pattern.identity import TaskId
from functions.pattern.known_crowds import Crowd, after_sweep
from functions.pattern.records import Extension, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import EpochEnd, ProcessState, Remedy, Way
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.transitions import apply
from tests.fakes.interventions import giving_up as giving
from tests.fakes.interventions import recovered, resubmission, supervised
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, step, trip, workflow

OF = workflow(step("pay", via=Way.QUEUE), step("send", "pay"), name="paying")
WITHIN = OF.steps[0].complete_within
PAY, SEND = (each.agent for each in OF.steps)
ASKED = told(pending(OF), claimed(), started("pay", complete_by=WITHIN))
SENDING = told(ASKED, completed("pay"), started("send", complete_by=WITHIN))
LATE = after(WITHIN + 6)
NOTHING = Signs({}, {})
_MORE = Extended(epoch=FIRST, until=after(450), behind="Agent pay", cause="no reply")
ANSWERS = Signs({PAY: after(WITHIN + 1)}, {})


def _circuit(state: BreakerState, since: float, agent: str = SEND) -> Signs:
    return Signs(
        {PAY: after(WITHIN + 1)}, {agent: BreakerRecord(service=agent, state=state, since=after(since))}
    )


def test_task_that_nobody_has_claimed_is_behind_the_schedulers() -> None:
    """It was never tried: nothing that it asks for can be to blame."""
    assert behind(pending(OF), LATE, NOTHING) == Behind(SCHEDULERS, CrowdCause.NOT_PICKED_UP)
    # Task whose host died is behind nothing.
    assert behind(SENDING, LATE, ANSWERS) is None
    assert behind(told(pending(OF), claimed()), LATE, NOTHING) is None


@pytest.mark.parametrize(
    ("replied", "is_silent"), [(None, True), (-60, True), (WITHIN - 10, True), (WITHIN - 9.9, False)]
)
def test_agent_is_silent_that_answered_nothing_when_its_time_ended(
    replied: float | None, *, is_silent: bool
) -> None:
    """Of the replies of ten seconds, the time of the first is kept."""
    signs = NOTHING if replied is None else Signs({PAY: after(replied)}, {})
    expected = Behind(f"Agent {PAY}", CrowdCause.NO_REPLY, blocked=True) if is_silent else None
    assert behind(ASKED, LATE, signs) == expected


@pytest.mark.parametrize(
    ("state", "since", "is_behind", "blocked"),
    [
        (BreakerState.OPEN, -600, True, True),
        (BreakerState.HALF_OPEN, -600, True, True),
        (BreakerState.CLOSED, 1, True, False),
        (BreakerState.CLOSED, -1, False, False),
    ],
)
def test_circuit_explains_what_was_late_while_it_was_open(
    state: BreakerState, since: float, *, is_behind: bool, blocked: bool
) -> None:
    """One that is closed again blocks nothing any more; one closed since before explains nothing."""
    expected = Behind(f"Agent {SEND}", CrowdCause.CIRCUIT_OPEN, blocked=blocked) if is_behind else None
    assert behind(SENDING, LATE, _circuit(state, since)) == expected
    assert behind(SENDING, LATE, _circuit(state, since, "another")) is None


@pytest.mark.parametrize(("record", "is_behind"), [("asked", True), ("sending", False)])
def test_reached_limit_explains_why_a_request_waits(record: str, *, is_behind: bool) -> None:
    """A step that is called directly has its place before it starts."""
    agent, late = (PAY, ASKED) if record == "asked" else (SEND, SENDING)
    signs = Signs({agent: LATE}, {}, frozenset({agent}))
    expected = Behind(f"Agent {agent}", CrowdCause.LIMIT_REACHED) if is_behind else None
    assert behind(late, LATE, signs) == expected


def test_task_stays_behind_what_it_was_extended_for() -> None:
    """The Agent answers again, and the task still waits for its turn."""
    extended = told(ASKED, _MORE, now=LATE)
    assert behind(extended, after(500), Signs({PAY: after(400)}, {})) == Behind(
        "Agent pay", CrowdCause.NO_REPLY
    )
    # An unknown cause of an extension explains no delay.
    extended = told(ASKED, replace(_MORE, cause="the tide"), now=LATE)
    assert behind(extended, after(500), Signs({PAY: after(400)}, {})) is None


@pytest.mark.parametrize(("waited", "long"), [(WITHIN / 2, True), (WITHIN / 2 - 0.1, False)])
def test_long_queue_is_one_that_took_half_a_steps_time(waited: float, *, long: bool) -> None:
    """What is not behind a queue is never suspected."""
    assert suspected(ASKED, LATE) == Behind(f"Agent {PAY}", CrowdCause.QUEUE_LONG)
    assert suspected(SENDING, LATE) is None
    assert is_long(LATE - timedelta(seconds=waited), ASKED, LATE) is long
    assert not is_long(None, ASKED, LATE)


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
    # Crowd that a long sweep has found is not over at its end.
    known = after_sweep((), (_crowd(),), after(60), 20).known
    found = after_sweep(known, (_crowd(found=90, until=90),), after(400), 20)
    assert (len(found.known), found.begun, found.ended) == (1, (), ())


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


CROWD = Behind("Agent pay", CrowdCause.NO_REPLY, blocked=True)
RUNNING = told(pending(LINE), claimed(), started(LINE.steps[0].name, complete_by=20))
OVERDUE = after(36)


def _extended(record: TaskRecord, now: datetime, policy: SupervisionPolicy = POLICY) -> TaskRecord:
    return told(record, more_time(record, CROWD, now, policy), now=now)


def test_extension_changes_nothing_but_the_time() -> None:
    """Its Scheduler keeps it; no request is replaced, nobody is told, nothing counts."""
    extended = _extended(RUNNING, OVERDUE)
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
    assert isinstance(apply(extended, more_time(extended, CROWD, OVERDUE, POLICY), OVERDUE), Refused)
    # A claim ends the extension.
    waiting = _extended(pending(LINE), OVERDUE)
    held = told(waiting, claimed(start_by=60), now=after(40))
    assert (held.task.process_state, held.task.is_extended) == (ProcessState.PROCESSING, False)
    # The place in line sets the time.
    assert more_time(RUNNING, CROWD, OVERDUE, POLICY, place=50).until == after(41)
    # A completed step leaves nothing to extend.
    done = told(RUNNING, completed(LINE.steps[0].name))
    assert isinstance(apply(done, more_time(RUNNING, CROWD, after(20), POLICY), after(20)), Refused)


def test_waits_grow_and_differ_from_task_to_task() -> None:
    """By up to a quarter: so they do not come back together."""
    policy = replace(POLICY, extended_waits=(timedelta(seconds=40), timedelta(seconds=80)))
    tasks = [pending(LINE, TaskId(f"task-{number}")) for number in range(50)]
    first = [_waited(_extended(task, OVERDUE, policy)) for task in tasks]
    assert all(40 <= wait <= 50 for wait in first)
    assert len({round(wait, 3) for wait in first}) > 40
    later = _extended(tasks[0], OVERDUE, policy)
    for _ in range(2):
        assert later.task.complete_by is not None
        now = later.task.complete_by + POLICY.skew
        later = _extended(later, now, policy)
        assert later.task.complete_by is not None
        assert 80 <= (later.task.complete_by - now).total_seconds() <= 100
    # Without waits the pick up limit is one.
    assert 30 <= _waited(_extended(pending(LINE), OVERDUE, replace(POLICY, extended_waits=()))) <= 37.5


def _waited(record: TaskRecord) -> float:
    assert record.task.complete_by is not None
    return (record.task.complete_by - OVERDUE).total_seconds()


@given(st.lists(st.floats(0.1, 40_000), max_size=30))
def test_all_extensions_of_a_task_end(pauses: list[float]) -> None:
    """However late the Supervisor comes: after a day in all, it is overdue like any other."""
    policy = replace(POLICY, extended_waits=(timedelta(hours=5),))
    record, now = pending(LINE), OVERDUE
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
    extended = _extended(RUNNING, OVERDUE, policy)
    assert not may_be_extended(extended, policy)
    verdict = judge(extended, after(60), policy)
    assert verdict is not None
    assert told(extended, verdict, now=after(60)).task.failure_count == 1
    # Operator gives it all its extensions again.
    extended = _extended(pending(trip(remedy=Remedy.HOLD)), OVERDUE, policy)
    counted = recovered(extended)
    assert counted.task.extended == extended.task.extended
    held = supervised(counted, giving(SECOND))
    assert told(held, resubmission(SECOND)).task.extended is None


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
    # Request is refused when a scheduler came first.
    event = turn(pending(LINE), CROWD, OVERDUE, POLICY, in_crowd=True)
    assert apply(RUNNING, event, OVERDUE) == Refused(RefusalReason.NOT_OVERDUE)


def test_task_that_a_scheduler_held_goes_on_in_the_next_epoch_uncounted() -> None:
    """The epoch keeps out whoever held it; what crowds have cost it stays known."""
    extended = _extended(RUNNING, OVERDUE)
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
    # One of few gets another scheduler instead of another request.
    extended = _extended(pending(LINE), OVERDUE)
    assert isinstance(turn(extended, CROWD, after(200), POLICY, in_crowd=False), Resumed)
    # The time of a late step is lost with its epoch.
    late = told(pending(OF), claimed(), started("pay", complete_by=60))
    event = turn(late, CROWD, after(66), POLICY, in_crowd=True)
    assert isinstance(event, Resumed)
    assert event.lost == timedelta(seconds=60)
