"""Callers are told what went wrong in our own words; texts of others are for operators."""

from __future__ import annotations

import pytest

from functions.pattern.plain_reasons import WITHHELD, plain_reason


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, None),
        ("car: car answered 422", "car: car answered 422"),
        ('car answered 422: {"iban": "DE…"}', "car answered 422"),
        ("undo of car: car answered 409: see http://10.0.0.4/", "undo of car: car answered 409"),
        ("car: still overdue after 4 recoveries (car: TimeoutError)", "car: still overdue"),
        ("pay: its outcome is unknown, and it must not run twice (x)", "pay: its outcome is unknown"),
        ("version 2 of 'trips' is not deployed here", "version 2 of 'trips' is not deployed here"),
        ("its answer can't be given: KeyError: 'x'", "its answer can't be given"),
        ("cancelled by its caller", "cancelled by its caller"),
    ],
)
def test_beginning_in_our_own_words_is_told(error: str | None, told: str | None) -> None:
    """And nothing of what follows."""
    assert plain_reason(error) == told


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
        "",
    ],
)
def test_any_other_text_is_withheld(error: str) -> None:
    """A defect's, a service's, an operator's."""
    assert plain_reason(error) == WITHHELD
