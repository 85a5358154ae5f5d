"""Operators search and group tasks in `Error` by the failed step and the class of the error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.error_texts import MOST_CLASS_BYTES, error_class, failed_step
from functions.core.record import FailurePolicy
from functions.core.task_events import OutcomeKind
from tests.unit.core.builders import DUE, after, new, run, spec

_PIECES = [*"a1 :'\"`“”(){,…-.", "answered 503", "can't", "undo of ", "pick: ", "customer "]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("pick: stock answered 503 (request 17)", "pick: stock answered 503 (request …)"),
        ("pick: stock answered 5031", "pick: stock answered …"),
        ("seats.12: no seat 'A 3', ask `desk` or \"hall\"", "seats: no seat …, ask … or …"),
        ("undo of seats.1: it can't be done", "undo of seats: it can't be done"),
        ("“x", "…x"),
        ("pay: KeyError: 'receipt'", "pay: KeyError: …"),
        ("ValueError: no row for '('John Smith')' of 5's", "ValueError: no row for …(…)… of …"),
        (f"x{'a ' * 121}answered 503 again", f"x{'a ' * 121}answered …"),
        ("see 3f9a0c27-11ee-4b5c-9d3f-000000000001!", "see …!"),
        ("not finished within 20 s", "not finished within … s"),
    ],
)
def test_parts_that_differ_between_tasks_are_removed(error: str, expected: str) -> None:
    """The name of the step and the status of an answer stay; a class is its own class."""
    assert error_class(error) == error_class(expected) == expected


@given(st.text(max_size=400) | st.lists(st.sampled_from(_PIECES), max_size=400).map("".join))
def test_class_is_its_own_class_and_bounded(error: str) -> None:
    """A list can be requested by a class, or by any error of it."""
    found = error_class(error)
    assert error_class(found) == found
    assert len(found.encode()) <= MOST_CLASS_BYTES


def test_id_of_the_task_is_removed() -> None:
    """An id may look like a word."""
    assert error_class("pick: no stock for miller", "miller") == "pick: no stock for …"
    assert error_class("pick: millers, a.b", "a.b") == "pick: millers, …"


def test_failed_step_is_the_one_that_the_error_names() -> None:
    """Items of one step are one cause. The name of a step is no part of another text."""
    items = [spec(f"seats.{number}", item=number) for number in range(2)]
    record = new(*items, spec("task"), on_failure=FailurePolicy.KEEP)
    assert failed_step(record) is None
    assert failed_step(run(record, "seats.1", OutcomeKind.REFUSED)) == "seats"
    assert failed_step(replace(record, error="undo of task: no")) == "task"
    assert failed_step(replace(record, error="other: no")) is None


def test_task_that_no_run_picked_up_failed_at_no_step() -> None:
    """A step may have any name."""
    record = new(spec("task"))
    for number in range(1, 20):
        record = after(record, DUE, seconds=number * 10_000) if record.finished_at is None else record
    assert (record.error, failed_step(record)) == ("the task: overdue after 5 recoveries", None)
