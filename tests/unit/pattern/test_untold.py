"""Events whose time is over where nobody could tell them: their task is parked, and they have longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.definition import Registry, Workflow
from functions.pattern.events import Parked, Released
from functions.pattern.refusals import RefusalReason
from functions.pattern.states import StepState
from functions.pattern.untold import untold
from functions.pattern.wait_events import TurnedAway, WaitsEnded
from tests.fakes.interventions import park_request
from tests.fakes.tasks import FIRST, after, claimed, pending, started, told
from tests.fakes.workflows import awaiting, step, timer, workflow
from tests.unit.pattern.waiting_tasks import (
    APPROVE,
    DAYS,
    after_the_end,
    event_of,
    handed_back,
    refusal_of,
    waiting,
)

FLOW = workflow(step("pay"), awaiting("approve"), timer("nap", until=after(DAYS)))
AWAITED = told(
    pending(FLOW), claimed(), started("approve", complete_by=DAYS), started("nap", complete_by=DAYS)
)
REASON = "version 1 of 'parcels' is not deployed here"


@pytest.mark.parametrize(
    ("deployed", "seconds", "reason"),
    [
        (replace(FLOW, version=2), DAYS, REASON),
        (replace(FLOW, version=2), DAYS - 1, None),
        (FLOW, DAYS, None),
    ],
    ids=["away", "not over yet", "here"],
)
def test_task_is_parked_when_the_time_of_an_event_ends_where_it_can_t_be_told(
    deployed: Workflow, seconds: float, reason: str | None
) -> None:
    """Not before; and where it could be told, it had its time."""
    found = untold(Registry((deployed,), {}), AWAITED, after(seconds))
    assert (found and found.reason) == reason
    if found is not None:
        assert told(AWAITED, found, now=after(seconds)).task.is_parked


def test_event_told_elsewhere_at_the_last_moment_parks_no_task() -> None:
    """A Supervisor that found it untold comes too late: a host with its version goes on with it."""
    record = handed_back(waiting())
    found = untold(Registry((), {}), record, after(DAYS))
    assert found is not None
    gone_on = told(record, event_of(), now=after(DAYS))
    assert refusal_of(gone_on, found, DAYS) is RefusalReason.NOT_OVERDUE


def test_time_needs_nobody_to_tell_it() -> None:
    """A timer ends wherever it is seen."""
    only = told(pending(FLOW), claimed(), started("nap", complete_by=DAYS))
    assert untold(Registry((), {}), only, after(DAYS)) is None


def test_no_task_is_parked_beside_a_step_under_way() -> None:
    """Its outcome is to come."""
    busy = told(AWAITED, started("pay"))
    assert untold(Registry((), {}), busy, after(DAYS)) is None


@pytest.mark.parametrize(
    ("released_at", "until"),
    [
        (DAYS - 99, DAYS),
        (DAYS - 1, DAYS + 29),
        (DAYS + 1, DAYS + 31),
        (DAYS + 99, DAYS + 198),
        (3 * DAYS, 4 * DAYS),
    ],
    ids=["not over yet", "nearly over", "at least", "as long again", "at most"],
)
def test_event_is_awaited_as_much_longer_as_nobody_could_tell_it(released_at: float, until: float) -> None:
    """From when its version is back; whoever was turned away before tries again a little later."""
    parked = told(handed_back(waiting()), Parked(epoch=FIRST, scheduler=None, reason=REASON))
    released = told(parked, Released(epoch=FIRST, start_by=after(released_at + 30)), now=after(released_at))
    assert released.step(APPROVE).complete_by == after(until)
    [of_before] = [step for step in released.history[-1].steps if step.name == APPROVE]
    assert of_before.complete_by == after(DAYS)


def test_event_is_awaited_longer_also_when_an_operator_parks_what_waits_for_its_version() -> None:
    """From then on: no deployment releases it any more. What nobody had parked has had its time."""
    record = handed_back(waiting())
    parked = told(record, Parked(epoch=FIRST, scheduler=None, reason=REASON))
    for before, until in ((parked, DAYS + 198), (record, DAYS)):
        aside = told(before, park_request(), now=after(DAYS + 99))
        assert aside.step(APPROVE).complete_by == after(until)


@pytest.mark.parametrize(
    ("first", "last", "until"),
    [(DAYS - 99, DAYS - 1, DAYS + 109), (DAYS - 1, DAYS - 1, DAYS + 35), (0, 9, 2 * DAYS + 5)],
    ids=["as long again", "at least", "at most"],
)
def test_event_whose_teller_was_turned_away_is_awaited_as_long_again(
    first: float, last: float, until: float
) -> None:
    """Once: when its time is over, wherever that is seen. From the first time that it could not be told."""
    record = handed_back(waiting())
    for at in (first, last):
        record = told(record, TurnedAway(step=APPROVE), now=after(at))
    assert record.step(APPROVE).complete_by == after(DAYS)
    longer = after_the_end(record)
    assert longer.step(APPROVE).complete_by == after(until)
    assert told(longer, event_of(), now=after(until)).step(APPROVE).state is StepState.COMPLETED
    over = WaitsEnded(epoch=FIRST, scheduler=None, start_by=after(until + 30))
    assert told(longer, over, now=after(until)).step(APPROVE).state is StepState.FAILED


def test_event_that_was_told_or_can_t_be_any_more_is_not_awaited_longer() -> None:
    """What was told in the end is the end of it, and what comes too late is not noted."""
    away = TurnedAway(step=APPROVE)
    turned_away = told(waiting(), away, now=after(1))
    assert told(turned_away, event_of()).step(APPROVE).turned_away_at is None
    for ended in (told(waiting(), event_of()), after_the_end(handed_back(waiting()))):
        assert told(ended, away, now=after(DAYS + 9)) is ended


def test_released_task_counts_the_time_in_which_its_event_was_turned_away() -> None:
    """It had been turned away before the time was over, and is not awaited for longer a second time."""
    turned_away = told(handed_back(waiting()), TurnedAway(step=APPROVE), now=after(DAYS - 99))
    parked = told(turned_away, Parked(epoch=FIRST, scheduler=None, reason=REASON))
    released = told(parked, Released(epoch=FIRST, start_by=after(DAYS + 31)), now=after(DAYS + 1))
    step = released.step(APPROVE)
    assert (step.complete_by, step.turned_away_at) == (after(DAYS + 101), None)
