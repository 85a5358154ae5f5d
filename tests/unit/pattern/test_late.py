"""A late outcome of what must not be repeated is known on its step, and moves nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.events import StepOutcome
from functions.pattern.identity import Epoch, StartId, StepName
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import AnnouncementKind, ProcessState, StepState
from functions.pattern.transitions import apply
from tests.fakes.interventions import (
    done,
    found_done,
    found_not_done,
    giving_up,
    resubmission,
    result_given,
    undo_request,
)
from tests.fakes.tasks import (
    FIRST,
    SECOND,
    after,
    claimed,
    completed,
    failed,
    pending,
    started,
    told,
    unrecorded,
)
from tests.fakes.workflows import step, workflow

PAY = StepName("pay")
FLOW = workflow(step("seat", undo=True), step("pay", "seat", undo=True, idempotent=False))
PAYING = told(pending(FLOW), claimed(), *done("seat"), started("pay", complete_by=5, start_id="one"))
LATER = after(10)
HELD = told(PAYING, giving_up(hold=True), now=LATER)
TURNED = told(HELD, undo_request(), claimed(SECOND), now=LATER)
PAID = replace(completed("pay", result=b'{"receipt":1}'), start_id=StartId("one"))
REFUSED = replace(failed("pay"), start_id=StartId("one"))
DONE_BUT = replace(unrecorded("pay"), start_id=StartId("one"))


def _told(record: TaskRecord, event: StepOutcome) -> TaskRecord:
    outcome = apply(record, event, LATER)
    assert not isinstance(outcome, Refused)
    assert outcome.task == record.task, "the task stays as it is"
    assert [each for each in outcome.steps if each.name != PAY] == [
        each for each in record.steps if each.name != PAY
    ]
    return outcome


@pytest.mark.parametrize("record", [PAYING, HELD, TURNED], ids=["late", "held", "turned back"])
@pytest.mark.parametrize(
    ("event", "state"),
    [(PAID, StepState.COMPLETED), (REFUSED, StepState.FAILED), (DONE_BUT, StepState.UNRECORDED)],
    ids=["done", "refused", "unrecorded"],
)
def test_what_is_known_late_stands_on_its_step(
    record: TaskRecord, event: StepOutcome, state: StepState
) -> None:
    """Whatever has become of the task; told again, it changes nothing."""
    known = _told(record, event)
    assert known.step(PAY).state is state
    if event is PAID:
        assert known.step(PAY).result == b'{"receipt":1}'
        assert apply(known, event, LATER) is known


def test_resubmission_never_repeats_what_is_known_done() -> None:
    """Nothing is left to do: it is `Processed`."""
    again = told(_told(HELD, PAID), resubmission(), now=LATER)
    assert again.task.process_state is ProcessState.PROCESSED


def test_step_that_was_done_after_all_is_no_refused_one() -> None:
    """Its Agent tells both of one start: an effect that may stand counts for more."""
    refused = _told(PAYING, REFUSED)
    assert _told(refused, PAID).step(PAY).state is StepState.COMPLETED


def test_undo_gets_the_result_that_came_late() -> None:
    """While the step is being undone, and when it is."""
    undoing = told(TURNED, started("pay", SECOND, start_id="undo"), now=LATER)
    known = _told(undoing, PAID)
    assert (known.step(PAY).state, known.step(PAY).result) == (StepState.UNDOING, b'{"receipt":1}')
    assert _told(known, PAID) is known, "told again"
    undone = told(undoing, completed("pay", SECOND), now=LATER)
    kept = _told(undone, PAID)
    assert (kept.step(PAY).state, kept.step(PAY).result) == (StepState.UNDONE, b'{"receipt":1}')
    assert isinstance(apply(undone, REFUSED, LATER), Refused)


def test_step_that_is_known_done_after_all_is_not_run_again() -> None:
    """The operator was wrong; its start is still the latest."""
    trusted = told(HELD, found_not_done("pay"), now=LATER)
    assert _told(trusted, PAID).step(PAY).state is StepState.COMPLETED
    assert isinstance(apply(trusted, REFUSED, LATER), Refused)


def test_step_that_was_begun_again_meanwhile_is_noted_and_alerted() -> None:
    """It was done twice, perhaps: somebody has to look."""
    trusted = told(HELD, found_not_done("pay"), now=LATER)
    again = told(trusted, claimed(SECOND), started("pay", SECOND, start_id="two"), now=LATER)
    noted = _told(again, PAID)
    assert noted.step(PAY).state is StepState.RUNNING
    assert noted.step(PAY).noted == "begun in epoch 1, too, which is known by now to have been done"
    [alert] = announcements(again, noted)
    assert (alert.kind, alert.step) == (AnnouncementKind.ALERT, PAY)
    assert alert.message_id.startswith("task-1.2.alert.noted.pay.")
    assert alert.reason == f"pay: {noted.step(PAY).noted}"
    assert apply(noted, PAID, LATER) is noted
    assert told(noted, completed("pay", SECOND), now=LATER).step(PAY).noted


@pytest.mark.parametrize("start_id", [None, StartId("another")])
def test_outcome_of_a_start_that_nobody_knows_counts_for_nothing(start_id: StartId | None) -> None:
    """Only who made the start, and its Agent, know its id."""
    for record in (HELD, TURNED):
        assert isinstance(apply(record, replace(PAID, start_id=start_id), LATER), Refused)


def test_late_outcome_of_what_may_be_repeated_counts_for_nothing() -> None:
    """It is called again, under the same key."""
    late = replace(completed("seat"), start_id=StartId("seat.1.1"))
    running = told(pending(FLOW), claimed(), started("seat", complete_by=5))
    assert isinstance(apply(running, late, LATER), Refused)


def test_answer_and_late_outcome_agree() -> None:
    """The operator gave the result before it came; the first stands."""
    given = told(HELD, found_done("pay", result=b'{"by":"hand"}'), now=LATER)
    assert apply(given, PAID, LATER) is given
    assert (given.task.epoch, FIRST) == (Epoch(2), Epoch(1))


def test_refusal_that_is_known_after_the_answer_done_is_noted_and_alerted() -> None:
    """The order goes on unpaid."""
    given = told(HELD, found_done("pay"), now=LATER)
    noted = _told(given, REFUSED)
    assert noted.step(PAY).state is StepState.COMPLETED
    [alert] = announcements(given, noted)
    assert alert.reason == "pay: taken for done, but refused, as is known by now: no money"
    assert _told(noted, REFUSED) is noted, "told again"
    assert isinstance(apply(given, DONE_BUT, LATER), Refused)


def test_refusal_told_again_after_an_operator_gave_a_result_is_no_news() -> None:
    """It was known: that is why the result is the operator's."""
    skipped = told(PAYING, REFUSED, result_given("pay"))
    assert skipped.step(PAY).state is StepState.COMPLETED
    assert isinstance(apply(skipped, REFUSED, LATER), Refused)
