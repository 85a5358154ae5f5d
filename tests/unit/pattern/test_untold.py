"""Events whose time is over where nobody could tell them: their task is parked, and they have longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.definition import Default, Registry, Workflow
from functions.pattern.events import Parked, Released
from functions.pattern.identity import SchedulerId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason
from functions.pattern.states import Expiry, StepState
from functions.pattern.untold import untold
from functions.pattern.wait_events import TurnedAway, WaitsEnded
from tests.fakes.interventions import cancellation, done, park_request
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, after, claimed, pending, started, told
from tests.fakes.workflows import awaiting, step, timer, workflow
from tests.unit.pattern.waiting_tasks import (
    APPROVE,
    DAYS,
    after_the_end,
    event_of,
    flow_of,
    handed_back,
    refusal_of,
    waiting,
)

FLOW = workflow(step("pay"), awaiting("approve"), timer("nap", until=after(DAYS)))
AWAITED = told(
    pending(FLOW), claimed(), started("approve", complete_by=DAYS), started("nap", complete_by=DAYS)
)
AWAY = TurnedAway(step=APPROVE)
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
    ("within", "noted", "seconds"),
    [(DAYS, DAYS - 99, 3600), (600, DAYS - 99, 600), (9, DAYS - 1, 30), (DAYS, DAYS + 1, 3600)],
    ids=["an hour", "as long as at first", "until something can start", "noted after its end"],
)
def test_event_whose_teller_was_turned_away_is_awaited_for_longer(
    within: float, noted: float, seconds: float
) -> None:
    """By the record alone, once: who is turned away again meanwhile is noted again."""
    record = handed_back(waiting(flow_of(complete_within=within)))
    for at in (noted, noted + 9):
        record = told(record, AWAY, now=after(at))
    assert record.step(APPROVE).turned_away_at == after(noted)
    longer = after_the_end(record)
    until = DAYS + POLICY.skew.total_seconds() + seconds
    assert (longer.step(APPROVE).state, longer.step(APPROVE).complete_by) == (StepState.RUNNING, after(until))
    assert longer.task.is_handed_back
    assert longer.task.due_at == after(until)
    assert after_the_end(longer, until).step(APPROVE).state is StepState.FAILED


@pytest.mark.parametrize("on_expiry", [Expiry.REFUSE, Expiry.HOLD, Default({"approved": False})])
@pytest.mark.parametrize("holder", [None, claimed().scheduler])
@pytest.mark.parametrize("is_busy", [True, False])
def test_noted_wait_does_not_end_by_its_time(
    on_expiry: Expiry | Default, holder: SchedulerId | None, *, is_busy: bool
) -> None:
    """Whatever would come of it, whoever finds it over, and whatever else is under way."""
    record = waiting(flow_of(step("other"), on_expiry=on_expiry))
    record = told(record, *([started("other", complete_by=2 * DAYS)] if is_busy else done("other")), AWAY)
    event = WaitsEnded(epoch=FIRST, scheduler=holder, start_by=after(DAYS + 30))
    longer = told(record, event, now=after(DAYS))
    assert longer.step(APPROVE).state is StepState.RUNNING
    assert longer.task.epoch == FIRST
    assert longer.task.locked_by == (record.task.locked_by if is_busy or holder else None)


def test_note_of_before_the_wait_does_not_lengthen_it() -> None:
    """All of its time is still to come then."""
    early = told(pending(flow_of()), AWAY, claimed(), *done("pay"), started("approve", complete_by=DAYS))
    assert after_the_end(handed_back(early)).step(APPROVE).state is StepState.FAILED


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (told(waiting(), event_of()), RefusalReason.STEP_ENDED),
        (told(waiting(), cancellation()), RefusalReason.FINISHED),
        (pending(workflow(step("approve"))), RefusalReason.NO_SUCH_STEP),
        (pending(workflow(step("pay"))), RefusalReason.NO_SUCH_STEP),
    ],
)
def test_teller_is_not_noted_of_what_no_event_ends(record: TaskRecord, reason: RefusalReason) -> None:
    """What was told, or comes too late; or the id is another task's by now."""
    assert refusal_of(record, AWAY) is reason


def test_released_task_has_the_hour_too() -> None:
    """It had been turned away before the time was over, and is not awaited for longer a second time."""
    turned_away = told(handed_back(waiting()), AWAY, now=after(DAYS - 99))
    parked = told(turned_away, Parked(epoch=FIRST, scheduler=None, reason=REASON))
    released = told(parked, Released(epoch=FIRST, start_by=after(DAYS + 31)), now=after(DAYS + 1))
    approve = released.step(APPROVE)
    assert (approve.complete_by, approve.turned_away_at) == (after(DAYS + 3601), None)
