"""A step that an order does not need is left out, and what needs it goes on."""

from __future__ import annotations

import pytest

from functions.pattern.errors import IllegalTransitionError
from functions.pattern.identity import StepName
from functions.pattern.ready import ready_steps
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, StepState
from functions.pattern.transitions import apply
from tests.fakes.interventions import done
from tests.fakes.tasks import SECOND, after, claimed, completed, failed, pending, skipped, started, told
from tests.fakes.workflows import DIAMOND, LINE, TRIP

CLOSE = StepName("close")


def test_what_needs_a_skipped_step_can_start() -> None:
    """It counts as settled, though it has no result."""
    record = told(pending(DIAMOND), claimed(), *done("open", "left"), skipped("right"))
    assert ready_steps(record) == (CLOSE,)
    step = record.step(StepName("right"))
    assert (step.state, step.started_at, step.finished_at, step.result) == (
        StepState.SKIPPED,
        None,
        after(0),
        None,
    )


def test_task_whose_last_step_is_skipped_is_processed() -> None:
    """Nothing is left to do."""
    record = told(pending(LINE), claimed(), *done("pick"), skipped("send"))
    assert record.task.process_state is ProcessState.PROCESSED


def test_task_of_skipped_steps_only_is_processed() -> None:
    """It needed nothing at all."""
    record = told(pending(LINE), claimed(), skipped("pick"), skipped("send"))
    assert record.task.process_state is ProcessState.PROCESSED


@pytest.mark.parametrize("last", ["pick", "send"])
def test_skipping_told_again_changes_nothing(last: str) -> None:
    """The activity ran twice; also when the task ended by it."""
    steps = ["pick", "send"][: ["pick", "send"].index(last) + 1]
    record = told(pending(LINE), claimed(), *map(skipped, steps))
    assert apply(record, skipped(last), after(1)) is record


def test_finished_task_skips_nothing_more() -> None:
    """Another step than the one that ended it is refused."""
    record = told(pending(LINE), claimed(), *done("pick", "send"))
    assert apply(record, skipped("pick"), after(1)) == Refused(RefusalReason.FINISHED)


def test_step_that_was_dispatched_is_never_skipped() -> None:
    """Its effect may stand."""
    record = told(pending(LINE), claimed(), started("pick"))
    with pytest.raises(IllegalTransitionError):
        apply(record, skipped("pick"), after(1))


def test_nothing_is_skipped_on_the_way_back() -> None:
    """Undo covers what was dispatched, and asks no condition."""
    record = told(
        pending(TRIP), claimed(), *done("flight"), started("hotel"), failed("hotel"), claimed(SECOND)
    )
    with pytest.raises(IllegalTransitionError):
        apply(record, skipped("car", SECOND), after(1))


def test_skipped_step_needs_no_undo() -> None:
    """It was never dispatched."""
    record = told(pending(TRIP), claimed(), skipped("flight"), *done("hotel"), started("car"), failed("car"))
    undone = told(record, claimed(SECOND), started("car", SECOND), completed("car", SECOND))
    assert undone.task.process_state is ProcessState.COMPENSATED
    assert undone.step(StepName("flight")).state is StepState.SKIPPED
