"""A crowd is told from a fault by what its tasks are behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.crowds import (
    SCHEDULERS,
    Behind,
    Crowd,
    CrowdCause,
    Signs,
    after_sweep,
    behind,
    is_long,
    suspected,
)
from functions.pattern.events import Extended
from functions.pattern.states import Way
from tests.fakes.tasks import FIRST, after, claimed, completed, pending, started, told
from tests.fakes.workflows import step, workflow

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


def test_task_whose_host_died_is_behind_nothing() -> None:
    """Neither when it had begun a step, nor before."""
    assert behind(SENDING, LATE, ANSWERS) is None
    assert behind(told(pending(OF), claimed()), LATE, NOTHING) is None


def test_task_stays_behind_what_it_was_extended_for() -> None:
    """The Agent answers again, and the task still waits for its turn."""
    extended = told(ASKED, _MORE, now=LATE)
    assert behind(extended, after(500), Signs({PAY: after(400)}, {})) == Behind(
        "Agent pay", CrowdCause.NO_REPLY
    )


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
    )


def test_crowd_begins_once_and_lasts_while_tasks_wait_in_it() -> None:
    """It ends when nothing of it was found for a while after the last extension's end."""
    first = after_sweep((), (_crowd(until=200),), after(60))
    assert (first.known, first.begun, first.ended) == ((_crowd(until=200),), (_crowd(until=200),), ())
    again = after_sweep(first.known, (_crowd(40, since=30, found=90, until=90),), after(90))
    assert (again.known, again.begun, again.ended) == ((_crowd(40, found=90, until=200),), (), ())
    fewer = after_sweep(again.known, (replace(_crowd(10, found=90, until=90), turns=10),), after(90))
    assert [each.tasks for each in fewer.known] == [30]
    quiet = after_sweep(again.known, (), after(320))
    assert (quiet.known, quiet.ended) == (again.known, ())
    over = after_sweep(quiet.known, (), after(320.1))
    assert (over.known, over.begun, over.ended) == ((), (), again.known)


@pytest.mark.parametrize(("due", "left"), [(300, 19_700), (3, 198), (400, 19_600)])
def test_tasks_of_a_line_that_went_on_by_themselves_do_not_count_on(due: int, left: int) -> None:
    """Of 20,000 in line for 33 minutes, 300 come due in 30 seconds; if only a few do, only a few are left."""
    known = (_crowd(20_000, found=0, until=1_980),)
    found = replace(_crowd(due, found=30, until=30), turns=due)
    assert [each.tasks for each in after_sweep(known, (found,), after(60)).known] == [left]
    blocked = replace(found, blocked=True)  # these are not in line
    assert [each.tasks for each in after_sweep(known, (blocked,), after(60)).known] == [20_000 - due]


def test_crowd_that_a_long_sweep_has_found_is_not_over_at_its_end() -> None:
    """Its sweep took minutes: it would be told anew by the next one."""
    known = after_sweep((), (_crowd(),), after(60)).known
    found = after_sweep(known, (_crowd(found=90, until=90),), after(400))
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
