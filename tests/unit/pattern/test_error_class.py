"""Errors of one cause have one class, whatever differs from task to task."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.error_class import (
    MAX_CLASS_BYTES,
    class_of_task,
    error_class,
    failed_step,
    stands_at,
)
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import Remedy
from tests.fakes.tasks import claimed, completed, failed, pending, started, told, unrecorded
from tests.fakes.workflows import LINE, TASK, each, step, workflow

PICK, SEND = StepName("pick"), StepName("send")


def _refused(error: str = "no money") -> TaskRecord:
    return told(pending(LINE), claimed(), started("pick"), failed("pick", error=error))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("drone: drone answered 503", "drone: drone answered 503"),
        ("s1: no 17 of order-42", "s1: no … of …"),
        ("undo of s1: 3 failed", "undo of s1: … failed"),
        ("hotel.0: drone answered 503", "hotel: drone answered 503"),
        ("undo of hotel.17: no room", "undo of hotel: no room"),
        ("pay: still overdue after 6 recoveries", "pay: still overdue after … recoveries"),
        ("pay: KeyError: 'receipt'", "pay: KeyError: …"),
        ("pay: it didn't do what it can't", "pay: it didn't do what it can't"),
        ('pay: pay answered 402: {"code": "declined"}', "pay: pay answered 402: {…: …}"),
        ("pay answered 5030 times", "pay answered … times"),
        ("no event came by 2026-11-24 10:00:00 UTC", "no event came by … … UTC"),
        ("see 3f9a0c27-11ee-4b5c-9d3f-000000000001!", "see …!"),
        ("""'"'"'""", "…"),
    ],
)
def test_what_differs_is_taken_out(error: str, expected: str) -> None:
    """Numbers, ids and quoted values; the name of the step and the status of an answer stay."""
    assert error_class(error) == expected


@given(st.text(max_size=400) | st.text(alphabet="a1 :'\"…,answered", max_size=400))
def test_class_is_its_own_class_and_bounded(error: str) -> None:
    """So that a list can be asked for by a class, or by any error of it."""
    found = error_class(error)
    assert error_class(found) == found
    assert len(found.encode()) <= MAX_CLASS_BYTES


def test_id_of_the_task_is_taken_out_whatever_it_looks_like() -> None:
    """A name without a number is an id, too."""
    record = told(
        pending(LINE, TaskId("miller")),
        claimed(task=TaskId("miller")),
        started("pick", task=TaskId("miller")),
        failed("pick", task=TaskId("miller"), error="nobody knows miller"),
    )
    assert class_of_task(record) == "pick: nobody knows …"
    assert class_of_task(pending(LINE)) is None


def test_step_is_named_that_the_last_error_tells_of() -> None:
    """What begins like a step's name, and is none, names nothing."""
    record = _refused()
    assert failed_step(record) == "pick"
    assert failed_step(pending(LINE)) is None
    other = replace(record, task=replace(record.task, last_error="task: still overdue"))
    assert failed_step(other) is None


def test_task_in_error_stands_at_the_step_of_its_last_error() -> None:
    """At no other, so that it is in one group."""
    record = _refused()
    assert stands_at(record, PICK)
    assert not stands_at(record, SEND)
    held = told(pending(LINE), claimed(), started("pick"), unrecorded("pick"))
    assert stands_at(held, PICK)


def test_task_stands_at_the_step_of_which_an_item_runs_or_failed() -> None:
    """Tasks that failed for one cause at different items are one group."""
    running = told(
        pending(workflow(each("call"), step("send", "call")), weight=2), claimed(), started("call.1")
    )
    assert stands_at(running, StepName("call"))
    assert not stands_at(running, SEND)
    record = told(running, failed("call.1", error="no answer"))
    assert (class_of_task(record), failed_step(record)) == ("call: no answer", "call")
    assert stands_at(record, StepName("call"))


def test_task_under_way_stands_at_what_runs() -> None:
    """Not at what is done, or not begun."""
    record = told(pending(LINE), claimed(), started("pick"), completed("pick"), started("send"))
    assert not stands_at(record, PICK)
    assert stands_at(record, SEND)
    assert not stands_at(record, StepName("fly"))


def test_finished_task_stands_at_what_failed() -> None:
    """One that went on without a step is found by it."""
    mail = workflow(step("pick"), step("mail", on_failure=Remedy.CONTINUE))
    record = told(
        pending(mail),
        claimed(),
        started("pick"),
        started("mail"),
        failed("mail"),
        completed("pick"),
    )
    assert record.task.finished_at is not None
    assert stands_at(record, StepName("mail"))
    assert not stands_at(record, PICK)
    assert record.order.task == TASK
