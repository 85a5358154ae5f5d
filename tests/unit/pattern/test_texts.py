"""Texts from outside are bounded in bytes, as they stand in a row, and clean."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from functions.pattern.errors import PatternError
from functions.pattern.texts import bounded, cause_of, said_by


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


def test_what_cannot_be_shown_becomes_a_space() -> None:
    """Line breaks, control characters, halves of surrogate pairs."""
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


class _Seat(BaseModel):
    row: Annotated[str, Field(max_length=1)]


def test_pydantic_error_does_not_say_what_was_given() -> None:
    """Of a long text, it would show both ends."""
    with pytest.raises(ValidationError) as wrong:
        _Seat(row="secret")
    said = "1 wrong in _Seat: row: String should have at most 1 character"
    assert (said_by(wrong.value), cause_of(wrong.value)) == (said, f"ValidationError: {said}")
