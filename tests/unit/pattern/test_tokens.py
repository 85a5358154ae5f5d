"""An outcome counts when it shows the token that went with the step's request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest

from functions.pattern.events import StepCompleted, StepFailed
from functions.pattern.identity import StepName
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, StepState
from functions.pattern.transitions import apply
from tests.fakes.interventions import recovered
from tests.fakes.tasks import SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE

PICK, SEND = StepName("pick"), StepName("send")
TOKEN, OTHER = "token-of-this-request", "token-of-another-one"

Outcome = Callable[[str | None], StepCompleted | StepFailed]
OUTCOMES: list[Outcome] = [
    lambda token: completed("pick", token=token),
    lambda token: failed("pick", token=token),
]
WRONG = Refused(RefusalReason.WRONG_TOKEN)
RUNNING = told(pending(LINE), claimed(), started("pick", token=TOKEN))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=["completed", "failed"])
@pytest.mark.parametrize("token", [None, "", OTHER, TOKEN[:-1]])
def test_outcome_without_the_token_is_refused(outcome: Outcome, token: str | None) -> None:
    """Whoever forges a reply does not know it."""
    assert apply(RUNNING, outcome(token), after(1)) == WRONG


def test_outcome_with_the_token_counts() -> None:
    """It came from whoever got the request."""
    record = told(RUNNING, completed("pick", token=TOKEN))
    assert record.step(PICK).state is StepState.COMPLETED


def test_step_that_was_never_dispatched_takes_no_outcome_with_a_token() -> None:
    """There was no request to answer; the forgery is refused, and is no defect of ours."""
    assert apply(RUNNING, completed("send", token=TOKEN), after(1)) == WRONG


def test_doubled_outcome_changes_nothing() -> None:
    """Service Bus delivers at least once."""
    record = told(RUNNING, completed("pick", token=TOKEN))
    assert apply(record, completed("pick", token=TOKEN), after(1)) is record


def test_forged_outcome_of_a_completed_step_is_refused() -> None:
    """Also when the task ended by it."""
    done = told(RUNNING, completed("pick", token=TOKEN))
    assert apply(done, completed("pick", token=OTHER), after(1)) == WRONG
    ended = told(done, started("send", token=TOKEN), completed("send", token=TOKEN))
    assert ended.task.process_state is ProcessState.PROCESSED
    assert apply(ended, completed("send", token=OTHER), after(1)) == Refused(RefusalReason.FINISHED)
    assert apply(ended, completed("send", token=TOKEN), after(1)) is ended


def test_token_of_an_older_epoch_is_refused() -> None:
    """Each dispatch has its own."""
    again = told(recovered(RUNNING), claimed(SECOND), started("pick", SECOND, token=OTHER))
    assert apply(again, completed("pick", SECOND, token=TOKEN), after(1)) == WRONG
    assert apply(again, completed("pick", token=TOKEN), after(1)) == Refused(RefusalReason.STALE_EPOCH)


def test_dispatch_told_again_keeps_the_first_token() -> None:
    """The activity ran twice: the request that is on its way stays valid."""
    assert apply(RUNNING, started("pick", token=OTHER), after(1)) is RUNNING


def test_closed_epoch_and_texts_keep_no_token() -> None:
    """It is a secret: neither the history nor a log shows it."""
    again = recovered(RUNNING)
    assert TOKEN not in str(asdict(again.history[0]))
    assert TOKEN not in repr(RUNNING)
