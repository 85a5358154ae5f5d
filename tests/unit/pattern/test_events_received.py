"""An event counts until its step's end is recorded; the record decides, not the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import starts_scheduler, wakes_scheduler
from functions.pattern.events import Released
from functions.pattern.identity import scheduler_id
from functions.pattern.ready import ready_steps
from functions.pattern.refusals import RefusalReason
from functions.pattern.states import StepState
from functions.pattern.texts import MAX_ERROR_BYTES
from tests.fakes.interventions import (
    cancellation,
    done,
    refused,
    resubmission,
)
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import TASK, step
from tests.unit.pattern.waiting_tasks import (
    APPROVE,
    DAYS,
    NO,
    YES,
    after_the_end,
    event_of,
    flow_of,
    handed_back,
    refusal_of,
    waiting,
)


def test_event_ends_the_wait_and_asks_for_the_next_run() -> None:
    """In the same epoch, uncounted; the body is the step's result."""
    before = handed_back(waiting())
    record = told(before, event_of())
    approve = record.step(APPROVE)
    assert (approve.state, approve.known_result, approve.received) == (StepState.COMPLETED, YES, YES)
    assert approve.told_by == "anna"
    assert (record.task.run, record.task.epoch, record.task.failure_count) == (1, FIRST, 0)
    assert starts_scheduler(before, record)
    assert not starts_scheduler(waiting(), before)
    assert record.task.due_at == after(30)


def test_reason_of_an_operator_is_bounded() -> None:
    """As each text on a step is."""
    record = told(waiting(), replace(event_of(), reason="\U0001f600" * 500))
    why = record.step(APPROVE).told_why
    assert why is not None
    assert 1_000 < len(why.encode()) <= MAX_ERROR_BYTES


def test_only_the_next_run_may_claim_it() -> None:
    """The one before has let go."""
    record = told(handed_back(waiting()), event_of())
    assert refusal_of(record, claimed()) is RefusalReason.NOT_HOLDER
    claim = replace(claimed(), scheduler=scheduler_id(TASK, FIRST, 1))
    assert ready_steps(told(record, claim)) == ("send",)


def test_scheduler_that_holds_the_task_hears_of_the_event() -> None:
    """It runs another step meanwhile."""
    before = told(waiting(flow_of(step("other"))), started("other", complete_by=DAYS))
    record = told(before, event_of())
    assert record.task.complete_by == after(30), "its message may be lost"
    assert wakes_scheduler(before, record) == "approve"
    assert ready_steps(record) == ("send",)
    assert wakes_scheduler(record, told(record, event_of())) is None
    early = told(pending(flow_of()), event_of())
    assert wakes_scheduler(pending(flow_of()), early) is None
    held = told(early, claimed())
    assert wakes_scheduler(early, held) is None


def test_event_may_come_before_its_step_has_begun() -> None:
    """Then the step is done as soon as it begins."""
    record = told(pending(flow_of()), event_of())
    assert (record.step(APPROVE).state, record.task) == (StepState.NOT_STARTED, pending(flow_of()).task)
    begun = told(record, claimed(), *done("pay"), started("approve", complete_by=DAYS))
    assert begun.step(APPROVE).known_result == YES
    assert ready_steps(begun) == ("send",)


@pytest.mark.parametrize("received", [YES, None])
def test_result_that_is_recorded_beside_the_event_counts(received: bytes | None) -> None:
    """An operator gives the result of a step that did not take its event."""
    record = told(waiting(), event_of())
    given = replace(record.step(APPROVE), result=NO, received=received)
    assert given.known_result == NO


def test_same_event_again_changes_nothing_and_another_is_refused() -> None:
    """Whatever has become of the task."""
    record = told(handed_back(waiting()), event_of())
    for each in (record, told(record, cancellation())):
        assert told(each, event_of()) is each
        assert refusal_of(each, event_of(NO)) is RefusalReason.OTHER_EVENT


def test_record_decides_whether_an_event_came_in_time() -> None:
    """Not the clock: as long as the expiry is not recorded, it counts."""
    assert told(handed_back(waiting()), event_of(), now=after(2 * DAYS)).step(APPROVE).known_result == YES
    expired = after_the_end(handed_back(waiting()))
    assert refusal_of(expired, event_of()) is RefusalReason.STEP_ENDED


@pytest.mark.parametrize("name", ["pay", "nothing"])
def test_only_a_step_that_waits_takes_an_event(name: str) -> None:
    """Any other is unknown to callers."""
    assert refusal_of(waiting(), event_of(step=name)) is RefusalReason.NO_SUCH_STEP


def test_event_counts_for_nothing_when_the_task_has_turned_back() -> None:
    """Or is about to: what was decided stands."""
    assert refusal_of(told(waiting(), cancellation()), event_of()) is RefusalReason.FINISHED
    flow = flow_of(step("other", idempotent=False))
    decided = told(waiting(flow), started("other"), cancellation())
    assert decided.task.decision is not None
    assert refusal_of(decided, event_of()) is RefusalReason.DECIDED


def test_event_counts_while_the_task_is_in_error() -> None:
    """It changes the step only; the task goes on when an operator says so."""
    held = told(waiting(flow_of(step("other"))), *refused("other"))
    record = told(held, event_of())
    assert (record.task, record.step(APPROVE).known_result) == (held.task, YES)
    assert ready_steps(told(record, resubmission(), claimed(SECOND))) == ("send", "other")


def test_event_of_a_parked_task_is_kept() -> None:
    """It stays parked; when it is released, it goes on."""
    idle = handed_back(waiting())
    parked = replace(idle, task=replace(idle.task, not_before=None, parked_for="parcels|1"))
    record = told(parked, event_of())
    assert (record.task, record.step(APPROVE).known_result) == (parked.task, YES)
    released = told(record, Released(epoch=FIRST, start_by=after(60)), claimed(SECOND))
    assert ready_steps(released) == ("send",)
