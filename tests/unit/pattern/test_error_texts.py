"""Texts of errors: bounded, classified, and without the words of others for callers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from functions.pattern.error_class import MAX_CLASS_BYTES, class_of_task, error_class, failed_step, stands_at
from functions.pattern.errors import PatternError, TransientError, as_error
from functions.pattern.identity import StepName, TaskId
from functions.pattern.plain_reasons import WITHHELD, plain_reason
from functions.pattern.records import TaskRecord
from functions.pattern.states import Remedy
from functions.pattern.texts import bounded, cause_of, said_by
from tests.fakes.interventions import recovered
from tests.fakes.tasks import claimed, completed, failed, pending, started, told, unrecorded
from tests.fakes.workflows import LINE, TASK, each, step, workflow


@given(st.text(max_size=80), st.integers(8, 64))
def test_text_takes_no_more_bytes_than_allowed(text: str, most: int) -> None:
    """In whatever script, and with whatever JSON has to escape."""
    cut = bounded(text, most)
    assert len(json.dumps(cut, ensure_ascii=False).encode()) - 2 <= most
    assert cut.isprintable()


@given(st.text(st.characters(min_codepoint=35, max_codepoint=90), max_size=40))
def test_text_that_fits_stays_whole(text: str) -> None:
    """To the last byte."""
    assert bounded(text, max(8, len(text))) == text


def test_cut_is_marked() -> None:
    """So that nobody takes it for the whole; no character is torn."""
    assert bounded("äöüäöü", 9) == "äöü…"
    assert bounded('say "no"', 9) == 'say "…'
    # Control characters become spaces.
    assert bounded("no\nmoney\x00\ud800!", 100) == "no money  !"


class _NoSeatError(Exception):
    """Its text is made of what it was not given."""

    def __str__(self) -> str:
        return f"no seat in row {self.args[0]}"


def test_defect_whose_text_has_a_defect_is_told_all_the_same() -> None:
    """Of our own errors, the text alone says it."""
    assert cause_of(_NoSeatError("7")) == "_NoSeatError: no seat in row 7"
    assert cause_of(_NoSeatError()) == "_NoSeatError: (its text raises IndexError)"
    assert cause_of(PatternError("known")) == "known"
    # Pydantic error does not say what was given.
    with pytest.raises(ValidationError) as wrong:
        _Seat(row="secret")
    said = "1 wrong in _Seat: row: String should have at most 1 character"
    assert (said_by(wrong.value), cause_of(wrong.value)) == (said, f"ValidationError: {said}")


class _Seat(BaseModel):
    row: Annotated[str, Field(max_length=1)]


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
        ("ValueError: no row for '('John Smith')' of 5's", "ValueError: no row for …(…)… of …"),
        (f"x{'a ' * 121}answered 503 again", f"x{'a ' * 121}answered …"),
        ("see 3f9a0c27-11ee-4b5c-9d3f-000000000001!", "see …!"),
    ],
)
def test_what_differs_is_taken_out(error: str, expected: str) -> None:
    """Numbers, ids and quoted values; the name of the step and the status of an answer stay."""
    assert error_class(error) == error_class(expected) == expected


_PIECES = [*"a1 :'\"`“”(){,…-.", "answered 503", "can't", "undo of ", "pick: ", "customer "]


@given(st.text(max_size=400) | st.lists(st.sampled_from(_PIECES), max_size=400).map("".join))
def test_class_is_its_own_class_and_bounded(error: str) -> None:
    """So that a list can be asked for by a class, or by any error of it."""
    found = error_class(error)
    assert error_class(found) == found
    assert len(found.encode()) <= MAX_CLASS_BYTES


def test_step_is_named_that_the_last_error_tells_of() -> None:
    """What begins like a step's name, and is none, names nothing."""
    record = _refused()
    assert failed_step(record) == "pick"
    assert failed_step(pending(LINE)) is None
    other = replace(record, task=replace(record.task, last_error="task: still overdue"))
    assert failed_step(other) is None
    # A task in `Error` is listed at the step of its last error.
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
    # Id of the task is taken out whatever it looks like.
    record = told(
        pending(LINE, TaskId("miller")),
        claimed(task=TaskId("miller")),
        started("pick", task=TaskId("miller")),
        failed("pick", task=TaskId("miller"), error="nobody knows miller"),
    )
    assert class_of_task(record) == "pick: nobody knows …"
    assert class_of_task(pending(LINE)) is None


def test_task_under_way_stands_at_what_runs() -> None:
    """Not at what is done, or not begun."""
    record = told(pending(LINE), claimed(), started("pick"), completed("pick"), started("send"))
    assert not stands_at(record, PICK)
    assert stands_at(record, SEND)
    assert not stands_at(record, StepName("fly"))
    # A finished task is listed at its failed step.
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


def test_work_that_was_cancelled_is_to_be_done_again() -> None:
    """It says nothing of the work itself; an error stays what it is."""
    told, error = as_error(asyncio.CancelledError()), ValueError("no")
    assert isinstance(told, TransientError)
    assert str(told) == "interrupted: CancelledError"
    assert as_error(error) is error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, None),
        ("trip: car.1: pay: pay answered 422 no money", "trip: car.1: pay: pay answered 422"),
        ("a: b: c: d: pay answered 422", WITHHELD),
        ("the task of which it is a step is undone", "the task of which it is a step is undone"),
        ("car: car answered 422", "car: car answered 422"),
        ('car answered 422: {"iban": "DE…"}', "car answered 422"),
        ("undo of car: car answered 409: see http://10.0.0.4/", "undo of car: car answered 409"),
        ("car: still overdue after 4 recoveries (car: TimeoutError)", "car: still overdue"),
        ("pay: its outcome is unknown, and it must not run twice (x)", "pay: its outcome is unknown"),
        ("version 2 of 'trips' is not deployed here", "version 2 of 'trips' is not deployed here"),
        ("its answer can't be given: KeyError: 'x'", "its answer can't be given"),
        ("cancelled by its caller", "cancelled by its caller"),
        ("mail: outcome unknown (mail: OSError at 10.0.0.4)", "mail: outcome unknown"),
        (
            "approve: no event came by 2026-11-24 10:00:00 UTC",
            "approve: no event came by 2026-11-24 10:00:00 UTC",
        ),
        (
            "charge: charge did not do it by complete-by (charge answered 503)",
            "charge: charge did not do it by complete-by",
        ),
        ("charge did not do it by complete-by", "charge did not do it by complete-by"),
        ("undo of car: not done within 0.5 s", "undo of car: not done within 0.5 s"),
        ("car: circuit open until 10:00:00 UTC, 5 failures in a row (car: OSError)", "car: circuit open"),
        ("its complete-by time passed", "its complete-by time passed"),
        (
            "its complete-by time passed before it was called",
            "its complete-by time passed before it was called",
        ),
        ("what it waited for is deployed", "what it waited for is deployed"),
        ("car: car answered more than 32768 bytes", "car: car answered more than 32768 bytes"),
        ("it was done, but car answered what can't be used: no JSON", "it was done"),
        ("car: its result can't be written as JSON: field iban", "car: its result can't be written as JSON"),
        (
            "its request has 70000 bytes; at most 65536 can be sent",
            "its request has 70000 bytes; at most 65536 can be sent",
        ),
        ("car: its outcome can't be recorded: 413", "car: its outcome can't be recorded"),
        ("undo of car: its Agent can't undo", "undo of car: its Agent can't undo"),
        (
            "step 'car' of version 2 of 'trips' is not deployed here",
            "step 'car' of version 2 of 'trips' is not deployed here",
        ),
        (
            "step 'car' of version 2 of 'trips': its Agent 'car' is not deployed here (by way queue)",
            "step 'car' of version 2 of 'trips': its Agent 'car' is not deployed here",
        ),
        (
            "the payload does not fit version 2 of 'trips' as it is deployed here: iban: Field required",
            "the payload does not fit version 2 of 'trips' as it is deployed here",
        ),
        (
            "version 2 of 'trips' as it is deployed here is not the recorded one; step 'car': KeyError: 'x'",
            "version 2 of 'trips' as it is deployed here is not the recorded one",
        ),
    ],
)
def test_beginning_in_our_own_words_is_told(error: str | None, told: str | None) -> None:
    """And nothing of what follows."""
    assert plain_reason(error) == told


def test_caller_of_a_recovered_task_is_told_why() -> None:
    """What the Supervisor wrote is passed on as it is."""
    record = recovered(told(pending(LINE), claimed()))
    assert plain_reason(record.task.last_error) == record.task.last_error == "its complete-by time passed"


@pytest.mark.parametrize(
    "error",
    [
        "send: KeyError: 'bin'",
        "KeyError: 'car answered 422'",
        "step 'pick': ZeroDivisionError: division by zero",
        "payment: payment: ClientConnectorError",
        "payment: no account of this customer at our bank",
        "payment: fraud suspected; payment answered 402",
        "cancelled by its caller, who is on the blacklist",
        "ticket 4711: the customer is in debt",
        "payment answered 4022",
        "charge: TransientError: charge did not do it by complete-by",
        "its complete-by time passed, says the bank of the customer",
        "what it waited for is deployed, and the customer is angry",
        "",
    ],
)
def test_any_other_text_is_withheld(error: str) -> None:
    """A defect's, a service's, an operator's."""
    assert plain_reason(error) == WITHHELD
