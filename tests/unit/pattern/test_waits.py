"""Steps that wait: the record decides, a long wait costs nothing, and its end is nobody's failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.announcements import starts_scheduler, wakes_scheduler
from functions.pattern.definition import Default, Step, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.events import (
    DecisionDue,
    Event,
    EventReceived,
    HandedBack,
    RefusalReason,
    Refused,
    Released,
    WaitsEnded,
)
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.planning import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, Expiry, ProcessState, Remedy, StepState, Way
from functions.pattern.supervision import judge
from functions.pattern.transitions import apply
from tests.fakes.clock import START
from tests.fakes.interventions import (
    cancellation,
    done,
    found_done,
    recovered,
    refused,
    resubmission,
    undo_request,
)
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import TASK, Approval, awaiting, step, timer, workflow

DAYS = 3 * 86_400
YES, NO = b'{"approved":true}', b'{"approved":false}'
APPROVE = StepName("approve")


def _flow(*more: Step, remedy: Remedy = Remedy.HOLD, **event: Any) -> Workflow:
    return workflow(
        step("pay", undo=True),
        awaiting("approve", "pay", **event),
        step("send", "approve"),
        *more,
        remedy=remedy,
    )


def _waiting(of: Workflow | None = None) -> TaskRecord:
    """Wait for the event for three days, with nothing else to do."""
    return told(pending(of or _flow()), claimed(), *done("pay"), started("approve", complete_by=DAYS))


def _event(body: bytes = YES, step: str = "approve") -> EventReceived:
    return EventReceived(step=StepName(step), body=body, start_by=after(30))


def _hand_back(record: TaskRecord) -> TaskRecord:
    return told(
        record, HandedBack(epoch=record.task.epoch, scheduler=record.task.locked_by or claimed().scheduler)
    )


def _refusal(record: TaskRecord, event: Event, seconds: float = 0) -> RefusalReason:
    outcome = apply(record, event, after(seconds))
    assert isinstance(outcome, Refused)
    return outcome.reason


def _ended(record: TaskRecord, seconds: float = DAYS) -> TaskRecord:
    """Let the Supervisor find what is over."""
    now = after(seconds) + POLICY.skew
    event = judge(record, now, POLICY)
    assert isinstance(event, WaitsEnded)
    return told(record, event, now=now)


def test_task_that_only_waits_is_handed_back() -> None:
    """Nobody holds it, it is due when the wait ends, and in the same epoch."""
    task = _hand_back(_waiting()).task
    assert (task.process_state, task.locked_by, task.is_handed_back) == (ProcessState.PENDING, None, True)
    assert (task.due_at, task.epoch, task.run) == (after(DAYS), FIRST, None)
    assert not _waiting().task.is_handed_back


@pytest.mark.parametrize("busy", [started("other"), None], ids=["busy", "nothing to wait for"])
def test_task_that_does_more_than_wait_is_not_handed_back(busy: Event | None) -> None:
    """Whatever its Scheduler thinks."""
    record = told(_waiting(_flow(step("other"))), busy) if busy else told(pending(_flow()), claimed())
    event = HandedBack(epoch=FIRST, scheduler=claimed().scheduler)
    assert _refusal(record, event) is RefusalReason.BUSY
    assert _refusal(record, replace(event, scheduler=scheduler_id(TASK, SECOND))) is RefusalReason.NOT_HOLDER


def test_nobody_claims_a_task_that_waits() -> None:
    """Its former Scheduler may be run again by Durable Functions."""
    assert _refusal(_hand_back(_waiting()), claimed()) is RefusalReason.WAITING


def test_event_ends_the_wait_and_asks_for_the_next_run() -> None:
    """In the same epoch, uncounted; the body is the step's result."""
    before = _hand_back(_waiting())
    record = told(before, _event())
    approve = record.step(APPROVE)
    assert (approve.state, approve.result, approve.received) == (StepState.COMPLETED, YES, YES)
    assert (record.task.run, record.task.epoch, record.task.failure_count) == (1, FIRST, 0)
    assert starts_scheduler(before, record)
    assert not starts_scheduler(_waiting(), before)
    assert record.task.due_at == after(30)


def test_only_the_next_run_may_claim_it() -> None:
    """The one before has let go."""
    record = told(_hand_back(_waiting()), _event())
    assert _refusal(record, claimed()) is RefusalReason.NOT_HOLDER
    claim = replace(claimed(), scheduler=scheduler_id(TASK, FIRST, 1))
    assert ready_steps(told(record, claim)) == ("send",)


def test_scheduler_that_holds_the_task_hears_of_the_event() -> None:
    """It runs another step meanwhile."""
    before = told(_waiting(_flow(step("other"))), started("other"))
    record = told(before, _event())
    assert wakes_scheduler(before, record) == "approve"
    assert ready_steps(record) == ("send",)
    assert wakes_scheduler(record, told(record, _event())) is None
    early = told(pending(_flow()), _event())
    assert wakes_scheduler(pending(_flow()), early) is None
    held = told(early, claimed())
    assert wakes_scheduler(early, held) is None


def test_event_may_come_before_its_step_has_begun() -> None:
    """Then the step is done as soon as it begins."""
    record = told(pending(_flow()), _event())
    assert (record.step(APPROVE).state, record.task) == (StepState.NOT_STARTED, pending(_flow()).task)
    begun = told(record, claimed(), *done("pay"), started("approve", complete_by=DAYS))
    assert begun.step(APPROVE).result == YES
    assert ready_steps(begun) == ("send",)


def test_same_event_again_changes_nothing_and_another_is_refused() -> None:
    """Whatever has become of the task."""
    record = told(_hand_back(_waiting()), _event())
    for each in (record, told(record, cancellation())):
        assert told(each, _event()) is each
        assert _refusal(each, _event(NO)) is RefusalReason.OTHER_EVENT


def test_record_decides_whether_an_event_came_in_time() -> None:
    """Not the clock: as long as the expiry is not recorded, it counts."""
    assert told(_hand_back(_waiting()), _event(), now=after(2 * DAYS)).step(APPROVE).result == YES
    expired = _ended(_hand_back(_waiting()))
    assert _refusal(expired, _event()) is RefusalReason.STEP_ENDED


@pytest.mark.parametrize("name", ["pay", "nothing"])
def test_only_a_step_that_waits_takes_an_event(name: str) -> None:
    """Any other is unknown to callers."""
    assert _refusal(_waiting(), _event(step=name)) is RefusalReason.NO_SUCH_STEP


def test_event_counts_for_nothing_when_the_task_has_turned_back() -> None:
    """Or is about to: what was decided stands."""
    assert _refusal(told(_waiting(), cancellation()), _event()) is RefusalReason.FINISHED
    flow = _flow(step("other", idempotent=False))
    decided = told(_waiting(flow), started("other"), cancellation())
    assert decided.task.decision is not None
    assert _refusal(decided, _event()) is RefusalReason.DECIDED


def test_event_counts_while_the_task_is_in_error() -> None:
    """It changes the step only; the task goes on when an operator says so."""
    held = told(_waiting(_flow(step("other"))), *refused("other"))
    record = told(held, _event())
    assert (record.task, record.step(APPROVE).result) == (held.task, YES)
    assert ready_steps(told(record, resubmission(), claimed(SECOND))) == ("send", "other")


def test_refused_without_an_event() -> None:
    """The remedy follows."""
    record = _ended(_hand_back(_waiting(_flow(remedy=Remedy.COMPENSATE))))
    assert record.step(APPROVE).error == "no event came by 2026-11-24 10:00:00 UTC"
    assert (record.task.direction, record.task.failure_count) == (Direction.UNDO, 0)
    assert [each.name for each in record.steps if each.needs_undo] == ["pay"]


def test_held_without_an_event_and_resubmitted() -> None:
    """An operator has it wait again, as long as the first time."""
    record = _ended(_hand_back(_waiting(_flow(remedy=Remedy.COMPENSATE, on_expiry=Expiry.HOLD))))
    assert record.task.process_state is ProcessState.ERROR
    again = told(record, resubmission(), claimed(SECOND))
    assert ready_steps(again) == ("approve",)


def test_goes_on_without_an_event_with_the_default() -> None:
    """As the model writes it."""
    record = _ended(_hand_back(_waiting(_flow(on_expiry=Default({"approved": False})))))
    assert record.step(APPROVE).result == NO
    assert record.task.run == 1
    assert _refusal(record, _event(NO)) is RefusalReason.STEP_ENDED


def test_goes_on_without_an_event_that_may_be_missing() -> None:
    """What needs it sees None."""
    record = _ended(_hand_back(_waiting(_flow(on_failure=Remedy.CONTINUE))))
    assert record.step(APPROVE).settled
    assert record.task.run == 1


def test_expiry_runs_through_all_epochs() -> None:
    """From the first start: neither a recovery nor a new run begins the wait again."""
    record = told(_waiting(_flow(step("other"))), started("other"))
    again = told(recovered(record), claimed(SECOND))
    assert ready_steps(again) == ("other",)
    assert again.step(APPROVE).complete_by == after(DAYS)
    assert told(again, _event()).step(APPROVE).result == YES


def test_wait_of_a_task_that_nobody_has_claimed_ends_all_the_same() -> None:
    """Its next run is asked for at once; an event that comes before that is kept on the step."""
    again = recovered(told(_waiting(_flow(step("other"))), started("other")))
    assert told(again, _event()).task == again.task
    late = replace(again, task=replace(again.task, complete_by=after(DAYS)))
    held = _ended(late)
    assert (held.task.process_state, held.step(APPROVE).state) == (ProcessState.ERROR, StepState.FAILED)


def test_end_of_a_wait_is_not_overdue() -> None:
    """No epoch, no count; before it, the Supervisor leaves the task alone."""
    record = _hand_back(_napping())
    assert record.task.due_at == after(DAYS)
    awake = _ended(record)
    assert (awake.task.epoch, awake.task.failure_count, awake.task.run) == (FIRST, 0, 1)
    assert awake.step(StepName("nap")).result == b"{}"


def _napping(seconds: float = DAYS) -> TaskRecord:
    flow = workflow(timer("nap"), step("go", "nap"), step("other"))
    return told(pending(flow), claimed(), *done("other"), started("nap", complete_by=seconds))


def test_last_wait_ends_the_task() -> None:
    """Without any Scheduler."""
    record = told(pending(workflow(timer("nap"))), claimed(), started("nap", complete_by=DAYS))
    assert _ended(_hand_back(record)).task.process_state is ProcessState.PROCESSED
    waiting = told(pending(workflow(awaiting("ok"))), claimed(), started("ok", complete_by=DAYS))
    assert told(waiting, _event(step="ok")).task.process_state is ProcessState.PROCESSED


def test_time_that_has_passed_is_done_at_once() -> None:
    """The step begins and ends in one change."""
    assert _napping(seconds=0).step(StepName("nap")).state is StepState.COMPLETED


def test_scheduler_sits_out_a_short_wait() -> None:
    """It is overdue when that ends, not before, though nothing runs."""
    record = _napping(seconds=50)
    assert record.task.complete_by == after(50)
    ended = WaitsEnded(epoch=FIRST, scheduler=claimed().scheduler, start_by=after(80))
    assert _refusal(record, ended, 49) is RefusalReason.NOT_OVERDUE
    assert _refusal(record, replace(ended, scheduler=scheduler_id(TASK, SECOND))) is RefusalReason.NOT_HOLDER
    awake = told(record, ended, now=after(50))
    assert (awake.task.process_state, awake.task.run) == (ProcessState.PROCESSING, None)
    assert ready_steps(awake) == ("go",)


def test_supervisor_gives_the_task_of_a_lost_scheduler_to_the_next_run() -> None:
    """Its wait is over, and nothing else runs."""
    assert _ended(_napping(seconds=50), 50).task.run == 1


def test_supervisor_leaves_the_task_to_a_scheduler_that_runs_something() -> None:
    """It goes on with all that is ready."""
    flow = workflow(timer("nap"), step("go", "nap"), step("slow"))
    record = told(pending(flow), claimed(), started("nap", complete_by=15), started("slow", complete_by=20))
    late = replace(record, task=replace(record.task, complete_by=after(15)))
    awake = _ended(late, 15)
    assert (awake.task.process_state, awake.task.complete_by) == (ProcessState.PROCESSING, after(20))


def test_step_that_may_fail_is_not_recovered() -> None:
    """When its time is over, the task goes on without it."""
    flow = workflow(step("mail", on_failure=Remedy.CONTINUE), step("file", "mail"))
    record = _ended(told(pending(flow), claimed(), started("mail")), 20)
    mail = record.step(StepName("mail"))
    assert (mail.state, mail.error) == (StepState.FAILED, "outcome unknown")
    assert (record.task.epoch, record.task.failure_count, record.task.run) == (FIRST, 0, 1)


def test_waits_end_no_more_when_it_is_decided_how_the_epoch_ends() -> None:
    """What was decided happens."""
    flow = _flow(step("other", idempotent=False))
    decided = told(_waiting(flow), started("other", complete_by=DAYS), cancellation())
    now = after(DAYS) + POLICY.skew
    assert isinstance(judge(decided, now, POLICY), DecisionDue)
    event = WaitsEnded(epoch=FIRST, scheduler=None, start_by=now)
    assert _refusal(decided, event, DAYS) is RefusalReason.NOT_OVERDUE


def test_task_that_waits_can_be_cancelled() -> None:
    """What was done is undone; the wait has nothing to undo."""
    record = told(_hand_back(_waiting()), cancellation())
    assert (record.task.direction, record.task.run, record.task.is_handed_back) == (
        Direction.UNDO,
        None,
        False,
    )
    assert ready_steps(told(record, claimed(SECOND))) == ("pay",)
    only_waits = told(pending(workflow(timer("nap"))), claimed(), started("nap", complete_by=DAYS))
    assert told(only_waits, cancellation()).task.process_state is ProcessState.COMPENSATED


def test_operator_can_have_a_task_undone_whose_event_did_not_come() -> None:
    """As any that is held."""
    held = _ended(_hand_back(_waiting(_flow(on_expiry=Expiry.HOLD))))
    assert told(held, undo_request()).task.direction is Direction.UNDO
    assert _refusal(held, found_done("approve")) is RefusalReason.NOT_IN_QUESTION


def test_history_knows_the_runs_of_an_epoch() -> None:
    """Their instances are purged with the task."""
    record = told(_hand_back(_waiting()), _event(), cancellation())
    assert [closed.run for closed in record.history] == [1]


def test_event_of_a_parked_task_is_kept() -> None:
    """It stays parked; when it is released, it goes on."""
    waiting = _hand_back(_waiting())
    parked = replace(waiting, task=replace(waiting.task, not_before=None, parked_for="parcels|1"))
    record = told(parked, _event())
    assert (record.task, record.step(APPROVE).result) == (parked.task, YES)
    released = told(record, Released(epoch=FIRST, start_by=after(60)), claimed(SECOND))
    assert ready_steps(released) == ("send",)


def _defined(**fields: Any) -> str:
    with pytest.raises(DefinitionError) as refusal:
        workflow(replace(awaiting("ok"), **fields))
    return str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"agent": "ok"}, "a step by way event has no agent: leave it out"),
        ({"undo": True}, "a step by way event has no undo: leave it out"),
        ({"idempotent": False}, "a step by way event has no idempotent: leave it out"),
        ({"payload": None}, "payload must be a pydantic model class, not None"),
        ({"role": "Boss"}, "role must be one of Submitter, Operator, not 'Boss'"),
        ({"on_expiry": "wait"}, "on_expiry must be Expiry.REFUSE or Expiry.HOLD, not 'wait'"),
        ({"on_expiry": Default({"approved": 7})}, "the default of its on_expiry does not fit (approved: "),
        ({"on_expiry": Default({})}, "the default of its on_expiry does not fit (approved: Field required)"),
        ({"on_expiry": Expiry.HOLD, "on_failure": Remedy.CONTINUE}, "only a refused step has an on_failure"),
        ({"complete_within": 0}, "complete_within must be more than 0"),
        ({"via": Way.TIMER}, "until must be a function of the payload and the results, not None"),
        ({"via": Way.TIMER, "until": lambda *_: START}, "a step by way timer has no complete_within"),
        ({"via": Way.ACTIVITY, "request": lambda *_: {}}, "a step by way activity has no payload"),
    ],
    ids=str,
)
def test_wait_that_can_t_work_is_refused(fields: Any, text: str) -> None:
    """When it is defined, with the field and the fix."""
    assert text in _defined(**fields)


def test_default_is_bounded() -> None:
    """It is a part of each task's shape."""

    class Note(Approval):
        text: str

    large = Default({"approved": True, "text": "x" * 4096})
    assert "bytes; 4096 fit" in _defined(payload=Note, on_expiry=large)
