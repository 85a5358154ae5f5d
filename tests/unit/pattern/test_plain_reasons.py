"""Callers are told what went wrong in our own words; texts of others are for operators."""

from __future__ import annotations

import pytest

from functions.pattern.plain_reasons import WITHHELD, plain_reason
from tests.fakes.interventions import recovered
from tests.fakes.tasks import claimed, pending, told
from tests.fakes.workflows import LINE


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
