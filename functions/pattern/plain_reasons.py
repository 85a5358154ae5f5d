"""What callers are told of an error: what is known to hold nothing internal, and no more."""

from __future__ import annotations

import re

from functions.pattern.answering import NO_ANSWER
from functions.pattern.definition import NAME_PATTERN

#: Stands for what may hold a defect's text, a remote service's answer, or an operator's words.
WITHHELD = "the operators know the reason"

#: How the errors begin that are our own; what follows is for operators.
_PLAIN = re.compile(
    rf"(undo of )?({NAME_PATTERN}: )?({NAME_PATTERN} answered \d{{3}}|still overdue|its outcome is unknown)\b"
    rf"|version \d+ of '{NAME_PATTERN}' is not deployed here"
    rf"|cancelled by its caller$"
    rf"|{NO_ANSWER}"
)


def plain_reason(error: str | None) -> str | None:
    """Give the part of an error that is for callers; None without any."""
    if error is None:
        return None
    plain = _PLAIN.match(error)
    return plain[0] if plain else WITHHELD
