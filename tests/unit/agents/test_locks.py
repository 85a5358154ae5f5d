"""A request's lock is half its time at most, or a crash would bring it again too late: else a warning."""

from __future__ import annotations

import pytest

from functions.agents.steps import check_agents, lock_warnings
from functions.pattern.states import Way
from tests.fakes.workflows import step, workflow

FLY = step("fly", via=Way.QUEUE, complete_within=29)
TRIPS = workflow(FLY, step("stay", complete_within=1), name="trips")
QUEUE = "agent-fly-requests"
TOO_LATE = "a request that a crash interrupts comes again too late"


@pytest.mark.parametrize(("lock", "warned"), [(14.5, False), (15, True)])
def test_step_with_less_than_two_locks_is_named_with_both_figures(lock: float, *, warned: bool) -> None:
    """Steps whose Agents are activities have no lock; one without a queue is refused elsewhere."""
    text = (
        "workflow 'trips': step 'fly': complete_within is 29 seconds,"
        f" less than twice the lock of '{QUEUE}' (15 seconds): {TOO_LATE}"
    )
    assert list(lock_warnings([TRIPS], {QUEUE: lock})) == [text] * warned
    assert list(lock_warnings([TRIPS], {})) == []


def test_application_warns_at_start(caplog: pytest.LogCaptureFixture) -> None:
    """It starts all the same: the Supervisor recovers what comes too late."""
    check_agents([workflow(FLY, name="trips")], {}, queues={QUEUE: 15}, function_timeout=300)
    assert [TOO_LATE in each for each in caplog.messages] == [True]
