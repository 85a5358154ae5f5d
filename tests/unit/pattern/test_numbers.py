"""Numbers that callers write as text."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from functions.pattern.numbers import PLAIN_NUMBER

NUMBER: TypeAdapter[Decimal] = TypeAdapter(Annotated[Decimal, PLAIN_NUMBER])
DIGITS = "1" * 48 * 1024


@pytest.mark.parametrize("text", ["4.90", "4.", ".5", "+1", "-0", "1e3", "1.5E-7", "0012"])
def test_digits_with_point_and_exponent_are_a_number(text: str) -> None:
    """As in any program."""
    assert NUMBER.validate_python(text) == Decimal(text)


@pytest.mark.parametrize(
    "text", ["", ".", "+", "e3", "1e", "1_0", "\u0661", " 1", "1\n", "0x1", "1.2.3", "NaN", "Infinity"]
)
def test_what_only_some_programs_read_is_none(text: str) -> None:
    """Another service would read another number, or none."""
    with pytest.raises(ValidationError):
        NUMBER.validate_python(text)


@pytest.mark.parametrize("text", [f"{DIGITS}x", f"{DIGITS}.{DIGITS}x", f"1e{DIGITS}x"])
def test_text_that_is_nearly_a_number_is_refused_at_once(text: str) -> None:
    """One of the longest orders that are taken stopped a process for a minute and a half."""
    start = time.process_time()
    with pytest.raises(ValidationError):
        NUMBER.validate_python(text)
    assert time.process_time() - start < 0.5
