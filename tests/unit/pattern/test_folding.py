"""A fold gives each event its own answer, and each change its own place."""

from __future__ import annotations

from datetime import datetime

from functions.pattern.errors import IllegalTransitionError
from functions.pattern.events import Event, StepCompleted
from functions.pattern.folding import Told, fold
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, StepState
from tests.fakes.clock import START
from tests.fakes.tasks import SECOND, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import DIAMOND, TRIP

SIDES = told(pending(), claimed(), started("open"), completed("open"), started("left"), started("right"))


def _starts_close(record: TaskRecord, _: datetime) -> list[Event]:
    """Start the step that both sides lead to, as any runner would."""
    return [started("close", start_id="mine")] if record.step(DIAMOND.steps[2].name).settled else []


def test_outcomes_that_wait_together_are_one_change_with_an_answer_each() -> None:
    """The last of them makes the next step ready."""
    told_ = [Told(completed("left"), _starts_close), Told(completed("right"), _starts_close)]
    folded = fold(SIDES, told_, START)
    first, second = folded.answers
    assert [type(event) for event in first.events] == [StepCompleted]
    assert second.events[1:] == (started("close", start_id="mine"),)
    assert folded.record is second.record
    assert len(folded.changes) == 3


def test_each_change_begins_where_the_one_before_ended() -> None:
    """So that what is counted for a change is counted once."""
    folded = fold(SIDES, [Told(completed("left")), Told(completed("right"))], START)
    first, second = folded.changes
    assert first.before is SIDES
    assert first.after is second.before
    assert second.after is folded.record


def test_step_is_started_by_one_runner_only() -> None:
    """The other's start is refused, and it gets no such event."""

    def other(_: TaskRecord, __: datetime) -> list[Event]:
        return [started("close", start_id="other")]

    both = told(SIDES, completed("left"), completed("right"))
    folded = fold(both, [Told(claimed(), _starts_close), Told(claimed(), other)], START)
    mine, theirs = folded.answers
    assert mine.events == (started("close", start_id="mine"),)
    assert theirs.events == ()


def test_refused_event_leaves_the_others_as_they_are() -> None:
    """And nothing follows it."""
    folded = fold(SIDES, [Told(claimed(SECOND), _starts_close), Told(completed("left"))], START)
    illegal, taken = folded.answers
    assert isinstance(illegal.fault, IllegalTransitionError)
    assert illegal.changes == ()
    assert taken.record.step(DIAMOND.steps[1].name).state is StepState.COMPLETED


def test_outcome_holds_when_what_follows_is_refused() -> None:
    """A start that must not be is left out; the outcome is recorded all the same."""
    late = [Told(completed("left"), lambda _, __: [started("right", start_id="another"), claimed(SECOND)])]
    folded = fold(SIDES, late, START)
    assert [type(event) for event in folded.answers[0].events] == [StepCompleted]


def test_events_after_the_end_of_an_epoch_are_refused() -> None:
    """A refusal by the service ends the epoch in the same fold in which a sibling still completes."""
    line = told(pending(TRIP), claimed(), started("flight"))
    folded = fold(line, [Told(failed("flight")), Told(completed("flight"))], START)
    assert folded.answers[0].record.task.process_state is ProcessState.PENDING
    assert folded.answers[1].fault == Refused(RefusalReason.STALE_EPOCH)


def test_repeat_changes_nothing_and_is_answered() -> None:
    """The same outcome twice: one change."""
    folded = fold(SIDES, [Told(completed("left")), Told(completed("left"))], START)
    assert [len(answer.changes) for answer in folded.answers] == [1, 0]
    assert folded.answers[1].fault is None
