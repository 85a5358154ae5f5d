"""A crowd is told from a fault by what its tasks are behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.crowds import SCHEDULERS, Behind, CrowdCause, Signs, behind, is_long, suspected
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


def test_task_that_another_version_has_extended_for_another_cause_is_late_by_itself() -> None:
    """After a rollback, it would be nobody's until the newer version is back."""
    extended = told(ASKED, replace(_MORE, cause="the tide"), now=LATE)
    assert behind(extended, after(500), Signs({PAY: after(400)}, {})) is None


@pytest.mark.parametrize(("waited", "long"), [(WITHIN / 2, True), (WITHIN / 2 - 0.1, False)])
def test_long_queue_is_one_that_took_half_a_steps_time(waited: float, *, long: bool) -> None:
    """What is not behind a queue is never suspected."""
    assert suspected(ASKED, LATE) == Behind(f"Agent {PAY}", CrowdCause.QUEUE_LONG)
    assert suspected(SENDING, LATE) is None
    assert is_long(LATE - timedelta(seconds=waited), ASKED, LATE) is long
    assert not is_long(None, ASKED, LATE)
