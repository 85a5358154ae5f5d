"""Texts that come from outside, such as errors, as they may stand in a task's rows: clean, and bounded."""

from __future__ import annotations

import hashlib
from bisect import bisect_right

from pydantic import ValidationError

from functions.pattern.errors import PatternError

#: A fault's text on a step, and what a closed epoch keeps of it for each of its steps.
MAX_ERROR_BYTES = 1024
MAX_PAST_ERROR_BYTES = 256

#: Ends a text that was cut.
CUT = "…"
_MARK_CHARACTERS = 8

#: Faults that pydantic found, and that are told.
_MOST_FAULTS = 3

#: Characters that are kept of an answer that a service gave.
_MOST_EXCERPT = 500


def bounded(text: str, most: int) -> str:
    """Cut a text to `most` bytes, counted as JSON in UTF-8; what can't be shown becomes a space."""
    begun = text[: most + 1]  # each character has a byte
    shown = begun if begun.isprintable() else "".join(each if each.isprintable() else " " for each in begun)
    if _cost(shown) <= most:
        return shown
    left = most - len(CUT.encode())
    fitting = bisect_right(range(len(shown)), left, key=lambda length: _cost(shown[:length])) - 1
    return shown[:fitting] + CUT


def _cost(text: str) -> int:
    return len(text.encode()) + text.count('"') + text.count("\\")


def mark_of(text: str) -> str:
    """Give what tells a text from others in few characters."""
    return hashlib.sha256(text.encode()).hexdigest()[:_MARK_CHARACTERS]


def cut(text: str, most: int) -> str:
    """Give at most `most` characters of a text, as they are."""
    return text if len(text) <= most else text[: most - len(CUT)] + CUT


def excerpt(body: bytes) -> str:
    """Give the beginning of what a service answered, as it is."""
    return cut(body.decode(errors="replace"), _MOST_EXCERPT)


def said_by(defect: BaseException) -> str:
    """Give an exception's text, which may have a defect, too; of pydantic's, without what it was given."""
    try:
        return _said_by_pydantic(defect) if isinstance(defect, ValidationError) else str(defect)
    except Exception as fault:  # noqa: BLE001 - whatever it raises
        return f"(its text raises {type(fault).__name__})"


def _said_by_pydantic(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults[:_MOST_FAULTS])
    return f"{error.error_count()} wrong in {error.title}: {told}"


def cause_of(defect: BaseException) -> str:
    """Say what an exception is, and what it says; of our own, the text alone says it."""
    said = said_by(defect)
    return said if isinstance(defect, PatternError) else f"{type(defect).__name__}: {said}"
