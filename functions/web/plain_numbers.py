"""Numbers that callers write as text: ASCII digits, without the other forms that Python reads."""

from __future__ import annotations

import re

from pydantic import BeforeValidator

# Possessive, since backtracking would take the square of the length of the text.
_NUMBER = re.compile(r"[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?+\d++)?+", re.ASCII)


def _check_digits(value: object) -> object:
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError("a number in digits, such as 4.90")
    return value


#: Annotates a number that may be sent as text: `1_0`, digits of other scripts and blanks are rejected.
PLAIN_NUMBER = BeforeValidator(_check_digits)
