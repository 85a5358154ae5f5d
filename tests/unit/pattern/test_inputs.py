"""What a step gets of the steps before it does not depend on which of the others have ended by then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.identity import StepName
from functions.pattern.inputs import results_of, undo_results_of
from functions.pattern.records import TaskRecord
from functions.pattern.states import StepState
from tests.fakes.tasks import pending
from tests.fakes.workflows import DIAMOND, step, workflow

LEFT = StepName("left")


def _ended(record: TaskRecord, **results: bytes | None) -> TaskRecord:
    for name, result in results.items():
        state = StepState.SKIPPED if result is None else StepState.COMPLETED
        record = record.with_step(replace(record.step(StepName(name)), state=state, result=result))
    return record


def test_step_gets_what_it_needs_and_what_that_needs() -> None:
    """In the workflow's order."""
    done = _ended(pending(DIAMOND), open=b'{"n":1}', left=b'{"n":2}', right=b'{"n":3}')
    results = results_of(done, StepName("close"))
    assert list(results.items()) == [("open", {"n": 1}), ("left", {"n": 2}), ("right", {"n": 3})]


def test_step_gets_nothing_of_a_sibling() -> None:
    """Whether that has ended by then is a matter of timing."""
    done = _ended(pending(DIAMOND), open=b'{"n":1}', right=b'{"n":3}')
    assert results_of(done, LEFT) == {"open": {"n": 1}}
    assert results_of(done, StepName("open")) == {}


def test_forgotten_need_is_named_with_its_fix() -> None:
    """In the first test, whichever step is faster."""
    done = _ended(pending(DIAMOND), open=b"{}", right=b"{}")
    with pytest.raises(KeyError, match="step 'left' gets no result of 'right': add it to its needs"):
        results_of(done, LEFT)[StepName("right")]


def test_skipped_step_is_there_as_none() -> None:
    """And what that one needs has its result."""
    line = workflow(step("a"), step("b", "a"), step("c", "b"))
    done = _ended(pending(line), a=b'{"n":1}', b=None)
    assert results_of(done, StepName("c")) == {"a": {"n": 1}, "b": None}


def test_undo_gets_its_steps_own_result_too() -> None:
    """None where it is unknown; and nothing of a sibling."""
    done = _ended(pending(DIAMOND), open=b'{"n":1}', left=b'{"n":2}', right=b'{"n":3}')
    assert undo_results_of(done, LEFT) == {"open": {"n": 1}, "left": {"n": 2}}
    assert undo_results_of(_ended(done, left=None), LEFT) == {"open": {"n": 1}, "left": None}


def test_result_stays_there_while_the_task_is_undone() -> None:
    """An undo gets the same request as the do."""
    done = _ended(pending(DIAMOND), open=b'{"n":1}')
    undone = done.with_step(replace(done.step(StepName("open")), state=StepState.UNDONE))
    assert results_of(undone, LEFT) == {"open": {"n": 1}}
